"""Which of several processes a request is for: the one that most likely has its session in memory.

By a hash of the session's name and, where the request brings a token of the service, its user. It
is a preference alone: every process answers for every session.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from contextlib import suppress
from hashlib import blake2b
from urllib.parse import unquote_to_bytes

_HEADERS = re.compile(
    rb"\r\n(?:x-contextrender-session|x-session-id|x-claude-code-session-id|session[-_]id)"
    rb":[ \t]*([^\r\n]+)",
    re.I,
)
_PATH = re.compile(rb"[A-Z]+ /(?:k/[^/ ]+/)?s/([^/? ]+)")
_TOKEN = re.compile(
    rb"\r\n(?:x-contextrender-token:[ \t]*|authorization:[ \t]*bearer[ \t]+)"
    rb"[\w-]+\.([\w-]+)\.[\w-]+",
    re.I,
)
_FIELD = re.compile(rb'"session"\s*:\s*("(?:[^"\\]|\\.)*")')


def preferred(begun: bytes, among: int) -> int | None:
    """The number of the process for a request of which this much has come; None: any.

    The session is named by the path, a header, or else the field `session` of a body whose
    beginning came together with the head.
    """
    head, complete, body = begun.partition(b"\r\n\r\n")
    if not complete:
        return None
    session = _session(head, body)
    if session is None:
        return None
    digest = blake2b(session, digest_size=8, key=_user(head)).digest()
    return int.from_bytes(digest, "big") % among


def _session(head: bytes, body: bytes) -> bytes | None:
    for found in (_PATH.match(head), _HEADERS.search(head)):
        if found:
            return unquote_to_bytes(found[1].strip())
    named = _FIELD.search(body)
    if named:
        with suppress(ValueError):
            return str(json.loads(named[1])).encode("utf-8", "replace")
    return None


def _user(head: bytes) -> bytes:
    """Whose token it says it is: whether that is true does not matter here."""
    token = _TOKEN.search(head)
    if token:
        with suppress(ValueError, TypeError, KeyError):
            claims = json.loads(urlsafe_b64decode(token[1] + b"=" * (-len(token[1]) % 4)))
            return str(claims["sub"]).encode("utf-8", "replace")[:64]
    return b""
