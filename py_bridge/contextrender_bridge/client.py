"""The Python client: `ContextRender().render(session, messages)` before each model call.

It takes the whole message list every time and sends only what is new.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import inf
from types import TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from httpx import USE_CLIENT_DEFAULT

from contextrender_bridge.client_errors import (
    HistoryDiverged,
    InvalidRequest,
    ServerError,
    Unauthorized,
    Unreachable,
    error_of,
)
from contextrender_bridge.credentials import LOOPBACK, NoCredentials, resolve_credentials
from contextrender_bridge.fitting import (
    DEADLINE,
    Failures,
    Fitted,
    dialect_of,
    fitted,
    reason_of,
)
from contextrender_bridge.replies import (
    DeleteView,
    ExplainView,
    ExportView,
    InspectView,
    RecallView,
    RenderView,
    SessionPage,
    SyncView,
)
from contextrender_bridge.sent import Known, Sent
from contextrender_bridge.session_names import name_of

Json = dict[str, Any]
Message = Mapping[str, Any]

TIMEOUT = 60.0
RETRIES = 2
FIRST_PAUSE = 0.05
NO_TOKEN = "none yet"
NOT_REPEATABLE = frozenset({"import_session", "delete_session"})


class ContextRender:
    """A connection to the service; safe between threads, and a context manager.

    Every method answers with the reply as plain JSON values, typed in `replies`, or raises a
    `ContextRenderError`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        login: tuple[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Address and token: as given, else from the environment, else those of the local server.

        `timeout` is in seconds; a call that could not reach the service, or found it busy, is made
        again up to `retries` times. With `login`, a name and a password, it gets tokens itself.
        `transport` reaches a service in this process (`embedded`). Raises NoCredentials.
        """
        known = resolve_credentials(url, token or (login and NO_TOKEN))
        local = urlsplit(known.url).hostname in LOOPBACK
        self.url = known.url
        self.failures = Failures()
        self._token_given = bool(token) or login is not None
        self._login = login
        self._retries = retries
        self._sent = Sent()
        self._http = httpx.Client(
            base_url=known.url,
            headers={"Authorization": f"Bearer {known.token}"},
            timeout=timeout,
            trust_env=not local,
            transport=transport,
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
        early: bool = False,
    ) -> RenderView:
        """Records what is new of `messages`, and answers with the history for the next model call.

        `budget`, `policy` and `parameters` are this call's, otherwise the session's; `model`, on
        the first call, is the model whose tokens are counted. `want` "plan" leaves out the
        messages: what to show is then in `plan`. `early`: it answers before what is new is on disk;
        should that fail, the next call sends it again.
        """
        asked = {"budget": budget, "policy": policy, "parameters": parameters, "model": model}
        fields = {**asked, "want": want, "early": early or None}
        return cast(RenderView, self._send_new("render", session, messages, fields))

    def fit(
        self,
        session: str | None,
        messages: Sequence[Message] | Mapping[str, Any],
        *,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        model: str | None = None,
        dialect: str = "chat",
        deadline: float = DEADLINE,
        fail_open: bool = True,
    ) -> Fitted:
        """What to send to the model in place of `messages`; the original when anything goes wrong.

        `messages` are chat messages, or a whole request body of `dialect` (chat, responses,
        messages, observations). The items that stay are the caller's own objects. `deadline` is in
        seconds; without `fail_open` it raises what went wrong. Without a session, how the history
        begins names it.
        """
        body = messages if isinstance(messages, Mapping) else {"messages": list(messages)}
        try:
            transcript = dialect_of(dialect, body).read(body)
            if not transcript.messages:
                return Fitted(body)
            session = name_of(transcript.messages) if session is None else session
            asked = {"budget": budget, "policy": policy, "parameters": parameters, "model": model}
            fields = {**asked, "want": "plan", "session": session, "early": True}
            until = time.monotonic() + deadline
            reply = self._send_new("render", session, transcript.messages, fields, until)
            return fitted(body, transcript, cast(RenderView, reply))
        except Exception as failure:
            if not fail_open:
                raise
            self.failures.add(reason_of(failure))
            return Fitted(body, failure=reason_of(failure))

    def sync(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        settings: Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> SyncView:
        """Records what is new of `messages`; `settings` become the session's own."""
        return cast(
            SyncView,
            self._send_new("sync", session, messages, {"settings": settings, "model": model}),
        )

    def explain(
        self,
        session: str,
        *,
        turn: int | None = None,
        branch: int | None = None,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> ExplainView:
        """Why each result is shown or not at a turn, the next one unless given."""
        where = {"session": session, "turn": turn, "branch": branch}
        asked = {"budget": budget, "policy": policy, "parameters": parameters}
        return cast(ExplainView, self._call("explain", {**where, **asked}))

    def recall(
        self,
        session: str,
        *,
        results: Sequence[int] | None = None,
        query: str | None = None,
        limit: int | None = None,
        branch: int | None = None,
    ) -> RecallView:
        """Complete results: those at the positions `results`, or those that answer `query` best."""
        wanted = {"results": results and list(results), "query": query, "limit": limit}
        return cast(
            RecallView, self._call("recall", {"session": session, "branch": branch, **wanted})
        )

    def list_sessions(
        self, *, limit: int | None = None, cursor: str | None = None, query: str | None = None
    ) -> SessionPage:
        """A page of the caller's sessions, newest first; its `next` is the next page's cursor.

        With a `query`, only those with it in their name.
        """
        return cast(
            SessionPage,
            self._call("list_sessions", {"limit": limit, "cursor": cursor, "query": query}),
        )

    def inspect_session(self, session: str, *, branch: int | None = None) -> InspectView:
        """A session's shape, without contents."""
        return cast(
            InspectView, self._call("inspect_session", {"session": session, "branch": branch})
        )

    def export_session(self, session: str) -> ExportView:
        """A whole session, to be kept or imported elsewhere."""
        return cast(ExportView, self._call("export_session", {"session": session}))

    def import_session(self, data: Mapping[str, Any], *, session: str | None = None) -> SyncView:
        """Makes a session from what `export_session` gave, under its own name unless given."""
        return cast(SyncView, self._call("import_session", {"data": data, "session": session}))

    def delete_session(self, session: str) -> DeleteView:
        """Removes a session and all that it holds."""
        self._sent.forget(session)
        return cast(DeleteView, self._call("delete_session", {"session": session}))

    def _send_new(
        self,
        walker: str,
        session: str,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        until: float = inf,
    ) -> Json:
        """Sends the messages after those the server has; all of them when it disagrees."""
        messages = list(messages)
        known, now = self._sent.compare(session, messages)
        request = {"session": session, **fields}
        try:
            reply = self._send_from(known, walker, messages, request, until)
        except HistoryDiverged:
            if not known.messages:
                raise
            reply = self._send_from(Known(), walker, messages, request, until)
        self._sent.remember(session, Known(len(messages), now, reply["digest"]))
        return reply

    def _send_from(
        self,
        known: Known,
        walker: str,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        until: float,
    ) -> Json:
        place = {"offset": known.messages, "prefix": known.digest}
        fresh = messages[known.messages :]
        return self._call(walker, {**fields, **place, "messages": fresh}, until)

    def _call(self, walker: str, fields: Mapping[str, Any], until: float = inf) -> Json:
        """The walker's report; fields that are None are left to the server."""
        given = {name: value for name, value in fields.items() if value is not None}
        pause = FIRST_PAUSE
        left = 0 if walker in NOT_REPEATABLE else self._retries
        while True:
            try:
                return self._asked(f"/walker/{walker}", given, until)
            except (Unreachable, ServerError) as error:
                late = time.monotonic() + pause > until
                if late or not left or error.status not in (0, 502, 503, 504):
                    raise
            left -= 1
            time.sleep(pause)
            pause *= 2

    def _asked(self, path: str, fields: Json, until: float) -> Json:
        """The report; with a fresh token if the client's own is no longer good."""
        try:
            answer = self._post(path, fields, until)
        except Unauthorized:
            if not self._refresh():
                raise
            answer = self._post(path, fields, until)
        if not answer.get("reports"):
            raise error_of(200, answer)
        return cast(Json, answer["reports"][0])

    def _refresh(self) -> bool:
        """Whether there is another token to try."""
        if self._login is not None:
            name, password = self._login
            token = str(
                self._post("/user/login", {"username": name, "password": password})["token"]
            )
        elif self._token_given:
            return False
        else:
            try:
                token = resolve_credentials(self.url, None).token
            except NoCredentials:
                return False
        used = self._http.headers["authorization"]
        self._http.headers["authorization"] = f"Bearer {token}"
        return self._http.headers["authorization"] != used

    def _post(self, path: str, fields: Json, until: float = inf) -> Json:
        """The JSON object that answers. Raises a ContextRenderError."""
        timeout = USE_CLIENT_DEFAULT if until == inf else max(0.001, until - time.monotonic())
        try:
            response = self._http.post(path, json=fields, timeout=timeout)
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
        if not (response.is_success and isinstance(body, dict)):
            raise error_of(response.status_code, body)
        return body
