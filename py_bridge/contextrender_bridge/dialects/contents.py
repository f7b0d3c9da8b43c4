"""The contents of messages: their canonical form, and the replacement of their text.

The canonical form of a message is equal in every call. So it lacks the `cache_control` marks, which
move from call to call. Media are replaced by digests, so that they are not recorded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base.wire import Json

TEXT_TYPES = ("text", "input_text", "output_text")
MEDIA = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "file": "file",
    "input_file": "file",
    "document": "file",
    "video_url": "image",
}
"""The kind of media that each type of content part is recorded as."""
OMITTED: Any = object()
"""A mark for an omitted part, because None would be a valid part."""

_UNRECORDED_FIELDS = frozenset({"cache_control", "annotations", "logprobs"})
"""Fields of a content part that may differ between two requests with the same part."""


def clean_text(text: str) -> str:
    """Return `text` with lone surrogates replaced by U+FFFD, so that UTF-8 can encode it."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def canonical_content(content: Any) -> str | list[Json] | None:
    """Return the content to record: a text if it has only text, otherwise a list of parts.

    The parts have the form of `_canonical_part`. A content of another type becomes JSON as a text.
    Return None for None.
    """
    if content is None:
        return None
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, list):
        return clean_text(json.dumps(content))
    parts = [_canonical_part(part) for part in content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def plain_text(content: Any) -> str:
    """Return the text of content in any format; parts that are not text are left out."""
    canonical = canonical_content(content)
    if isinstance(canonical, list):
        return "\n".join(part["text"] for part in canonical if part["type"] == "text")
    return canonical or ""


def full_text(content: Any) -> str:
    """Return the text of content in any format. Leave out media; other parts become JSON."""
    canonical = canonical_content(content)
    if isinstance(canonical, list):
        return "\n".join(part["text"] for part in canonical if "text" in part)
    return canonical or ""


def media_count(message: Json) -> int:
    """Return the number of images and other media in a canonical message, which has digests."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return sum(isinstance(part, dict) and "digest" in part for part in parts)


CUT = "\n[... cut to fit the model's window ...]\n"


class CutText(str):
    """A text cut to about `size` characters.

    As a substitute for content with several parts, it is not used itself: `cut_parts` cuts the
    longest parts to this size instead.
    """

    size: int

    def __new__(cls, text: str, size: int) -> CutText:
        """Cut `text` to about `size` characters."""
        cut_text = super().__new__(cls, _cut(text, size))
        cut_text.size = size
        return cut_text

    def cut_parts(self, parts: Sequence[Any], kind: str = "text") -> list[Any]:
        """Cut the longest of these text parts until together they have about `size` characters.

        Return all parts in their order. Parts that are not cut are unchanged. `kind` is the type
        of a part that replaces a document or a search result.
        """
        cut_parts = list(parts)
        texts = [plain_text([part]) for part in parts]
        longest_first = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        excess = sum(map(len, texts)) - self.size
        for number in longest_first:
            if excess > 0:
                text = _cut(texts[number], len(texts[number]) - excess)
                excess -= len(texts[number]) - len(text)
                cut_parts[number] = part_with(parts[number], text, kind)
        return cut_parts


def _cut(text: str, size: int) -> str:
    """Return the beginning and the end of a text, about `size` characters together."""
    half = max(size // 2 - len(CUT), 50)
    if len(text) <= 2 * half:
        return text
    return f"{text[:half]}{CUT}{text[-half:]}"


def with_text(content: Any, text: str, kind: str = "text") -> Any:
    """Return the content with `text` instead of its own text; keep parts without text.

    In a list of parts, the first part with text gets `text`, and the other parts with text are
    removed. If `text` is a `CutText`, cut the content's parts instead. `kind` is the type of a new
    text part, which is added in front if no part has text.
    """
    if not isinstance(content, list):
        return text
    if isinstance(text, CutText):
        cut = iter(text.cut_parts([part for part in content if holds_text(part)], kind))
        return [next(cut) if holds_text(part) else part for part in content]
    parts: list[Any] = []
    needs_text = bool(text)
    for part in content:
        if not holds_text(part):
            parts.append(part)
        elif needs_text:
            parts.append(part_with(part, text, kind))
            needs_text = False
    return [{"type": kind, "text": text}, *parts] if needs_text else parts


def parts_of(content: Any) -> list[Any]:
    """Return content as a list of parts; a text becomes a part, unless it is empty."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def is_text(part: Any) -> bool:
    """Return whether a content part is a string or has a text type."""
    if isinstance(part, str):
        return True
    return (
        isinstance(part, dict)
        and part.get("type") in TEXT_TYPES
        and isinstance(part.get("text"), str)
    )


def holds_text(part: Any) -> bool:
    """Return whether a content part is text, a text document or a search result."""
    if is_text(part):
        return True
    if not isinstance(part, Mapping):
        return False
    return part.get("type") == "search_result" or _is_text_document(part)


def part_with(part: Any, text: str, kind: str = "text") -> Any:
    """Return a part that holds text, with `text` instead of its own.

    `kind` is the type of the new part that replaces a document or a search result.
    """
    if isinstance(part, str):
        return text
    return {**part, "text": text} if is_text(part) else {"type": kind, "text": text}


def _canonical_part(part: Any) -> Json:
    """Return the form in which a part is recorded.

    It is a `text`, a kind of media with a digest, or `other` with the part's JSON as text.
    """
    if is_text(part):
        text = part if isinstance(part, str) else part["text"]
        return {"type": "text", "text": clean_text(text)}
    if not isinstance(part, Mapping):
        return {"type": "text", "text": clean_text(json.dumps(part))}
    kind = part.get("type")
    encoded = json.dumps({key: part[key] for key in part if key not in _UNRECORDED_FIELDS})
    if isinstance(kind, str) and kind in MEDIA and not _is_text_document(part):
        digest = hashlib.blake2b(encoded.encode(), digest_size=16).hexdigest()
        return {"type": MEDIA[kind], "digest": digest}
    return {"type": "other", "text": clean_text(encoded)}


def _is_text_document(part: Mapping[str, Any]) -> bool:
    """Return whether a part is a document that contains its text, not a file or an address."""
    source = part.get("source")
    return isinstance(source, Mapping) and source.get("type") in ("text", "content")
