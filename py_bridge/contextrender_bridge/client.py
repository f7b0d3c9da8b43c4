"""The Python client: `ContextRender().render(session, messages)` before each model call.

It takes the whole message list every time and sends only what is new.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from contextrender_bridge.client_errors import (
    HistoryDiverged,
    InvalidRequest,
    Unreachable,
    error_of,
)
from contextrender_bridge.credentials import LOOPBACK, Credentials, NoCredentials, load_credentials

Json = dict[str, Any]
Message = Mapping[str, Any]

TIMEOUT = 60.0
REMEMBERED_SESSIONS = 256


@dataclass
class _Sent:
    """What the server has of a session: the messages as they were, and the digest after them."""

    messages: list[Message] = field(default_factory=list)
    digest: str = ""


class ContextRender:
    """A connection to the service; safe between threads, and a context manager.

    Every method answers with the reply as plain JSON values (README, Endpoints) or raises a
    `ContextRenderError`.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout: float = TIMEOUT
    ) -> None:
        """Address and token: as given, else from the environment, else those of the local server.

        `timeout` is in seconds. Raises NoCredentials.
        """
        known = _credentials(url, token)
        local = urlsplit(known.url).hostname in LOOPBACK
        self.url = known.url
        self._sent: OrderedDict[str, _Sent] = OrderedDict()
        self._sent_lock = threading.Lock()
        self._http = httpx.Client(
            base_url=known.url,
            headers={"Authorization": f"Bearer {known.token}"},
            timeout=timeout,
            trust_env=not local,
        )

    def __enter__(self) -> ContextRender:
        """The client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Gives back the connections."""
        self._http.close()

    def render(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        model: str | None = None,
        want: str = "messages",
    ) -> Json:
        """Records what is new of `messages`, and answers with the history for the next model call.

        `budget`, `policy` and `parameters` are this call's, otherwise the session's; `model`, on
        the first call, is the model whose tokens are counted. `want` "plan" leaves out the
        messages: what to show is then in `plan`.
        """
        asked = {"budget": budget, "policy": policy, "parameters": parameters, "model": model}
        return self._send_new("render", session, messages, {**asked, "want": want})

    def sync(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        settings: Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> Json:
        """Records what is new of `messages`; `settings` become the session's own."""
        return self._send_new("sync", session, messages, {"settings": settings, "model": model})

    def explain(
        self,
        session: str,
        *,
        turn: int | None = None,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> Json:
        """Why each result is shown or not at a turn; without one, at the next."""
        fields = {"turn": turn, "budget": budget, "policy": policy, "parameters": parameters}
        return self._call("explain", {"session": session, **fields})

    def list_sessions(self, *, limit: int | None = None, cursor: str | None = None) -> Json:
        """A page of the caller's sessions, newest first; its `next` is the next page's cursor."""
        return self._call("list_sessions", {"limit": limit, "cursor": cursor})

    def inspect_session(self, session: str) -> Json:
        """A session's shape, without contents."""
        return self._call("inspect_session", {"session": session})

    def export_session(self, session: str) -> Json:
        """A whole session, to be kept or imported elsewhere."""
        return self._call("export_session", {"session": session})

    def delete_session(self, session: str) -> Json:
        """Removes a session and all that it holds."""
        self._sent.pop(session, None)
        return self._call("delete_session", {"session": session})

    def _send_new(
        self, walker: str, session: str, messages: Sequence[Message], fields: Mapping[str, Any]
    ) -> Json:
        """Sends the messages after those the server has; all of them when it disagrees."""
        known = self._sent.get(session) or _Sent()
        offset = len(known.messages)
        if list(messages[:offset]) != known.messages:
            known, offset = _Sent(), 0
        snapshot = copy.deepcopy(list(messages[offset:]))
        request = {"session": session, **fields}
        try:
            reply = self._call(
                walker, {**request, "messages": snapshot, "offset": offset, "prefix": known.digest}
            )
        except HistoryDiverged:
            if not offset:
                raise
            reply = self._call(walker, {**request, "messages": list(messages)})
        self._remember(session, _Sent(known.messages + snapshot, reply["digest"]))
        return reply

    def _remember(self, session: str, sent: _Sent) -> None:
        with self._sent_lock:
            self._sent[session] = sent
            self._sent.move_to_end(session)
            while len(self._sent) > REMEMBERED_SESSIONS:
                self._sent.popitem(last=False)

    def _call(self, walker: str, fields: Mapping[str, Any]) -> Json:
        """The walker's report; fields that are None are left to the server."""
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            response = self._http.post(f"/walker/{walker}", json=given)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable("unreachable", 0, f"No answer from {self.url}: {reason}.") from error
        except (TypeError, ValueError) as error:
            sentence = f"This cannot be sent as JSON: {error}."
            raise InvalidRequest("invalid_json", 0, sentence) from error
        try:
            body = response.json()
        except ValueError:
            body = None
        if not (response.is_success and isinstance(body, dict) and body.get("reports")):
            raise error_of(response.status_code, body)
        return cast(Json, body["reports"][0])


def _credentials(url: str | None, token: str | None) -> Credentials:
    url = (url or os.environ.get("CONTEXTRENDER_URL", "")).rstrip("/")
    token = token or os.environ.get("CONTEXTRENDER_TOKEN", "")
    if url and token:
        return Credentials(url, token)
    found = load_credentials()
    if url and not token and urlsplit(url).hostname not in LOOPBACK:
        raise NoCredentials(f"The local server's token is not for {url}: give its own token.")
    return Credentials(url or found.url, token or found.token)
