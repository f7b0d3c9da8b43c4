"""The asynchronous client: `await AsyncContextRender().render(session, messages)`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from contextrender_bridge import wire
from contextrender_bridge.client import FIRST_PAUSE, NO_TOKEN, NOT_REPEATABLE, RETRIES, TIMEOUT
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

_JSON = {"content-type": "application/json"}


class AsyncContextRender:
    """A connection to the service for one event loop; an asynchronous context manager.

    Methods answer and raise as those of `ContextRender`. A call that failed to reach the service,
    or that found it busy, is made again up to `retries` times; none of these does anything twice.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        login: tuple[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Address and token as for `ContextRender`; `login` (name, password) gets tokens itself.

        `transport` reaches a service in this process (`embedded`). Raises NoCredentials.
        """
        known = resolve_credentials(url, token or (login and NO_TOKEN))
        self.url = known.url
        self._token = known.token
        self._token_given = bool(token) or login is not None
        self.failures = Failures()
        self._login = login
        self._retries = retries
        self._sent = Sent()
        self._http = httpx.AsyncClient(
            base_url=known.url,
            timeout=timeout,
            trust_env=urlsplit(known.url).hostname not in LOOPBACK,
            transport=transport,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    async def __aenter__(self) -> AsyncContextRender:
        """The client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes it."""
        await self.close()

    async def close(self) -> None:
        """Gives back the connections."""
        await self._http.aclose()

    async def render(
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
        token: str | None = None,
        line: str = "",
    ) -> RenderView:
        """Records what is new of `messages`, and answers with the history for the next model call.

        As `ContextRender.render`; `token` is that of another user for this call, and `line` tells
        histories of one session apart that go on side by side.
        """
        asked = {"budget": budget, "policy": policy, "parameters": parameters, "model": model}
        fields = {"session": session, **asked, "want": want, "early": early or None}
        return cast(RenderView, await self._send_new("render", messages, fields, token, line))

    async def fit(
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
        token: str | None = None,
        line: str = "",
    ) -> Fitted:
        """What to send to the model in place of `messages`; the original when anything goes wrong.

        As `ContextRender.fit`; `token` and `line` as for `render`.
        """
        body = messages if isinstance(messages, Mapping) else {"messages": list(messages)}
        try:
            transcript = dialect_of(dialect, body).read(body)
            if not transcript.messages:
                return Fitted(body)
            session = name_of(transcript.messages) if session is None else session
            asked = {"budget": budget, "policy": policy, "parameters": parameters, "model": model}
            fields = {**asked, "want": "plan", "session": session, "early": True}
            send = self._send_new("render", transcript.messages, fields, token, line)
            reply = await asyncio.wait_for(send, deadline)
            return fitted(body, transcript, cast(RenderView, reply))
        except Exception as failure:
            if not fail_open:
                raise
            self.failures.add(reason_of(failure))
            return Fitted(body, failure=reason_of(failure))

    async def sync(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        settings: Mapping[str, Any] | None = None,
        model: str | None = None,
        token: str | None = None,
        line: str = "",
    ) -> SyncView:
        """Records what is new of `messages`; `settings` become the session's own."""
        fields = {"session": session, "settings": settings, "model": model}
        return cast(SyncView, await self._send_new("sync", messages, fields, token, line))

    async def explain(
        self,
        session: str,
        *,
        turn: int | None = None,
        branch: int | None = None,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        token: str | None = None,
    ) -> ExplainView:
        """Why each result is shown or not at a turn, the next one unless given."""
        where = {"session": session, "turn": turn, "branch": branch}
        asked = {"budget": budget, "policy": policy, "parameters": parameters}
        return cast(ExplainView, await self.call("explain", {**where, **asked}, token))

    async def recall(
        self,
        session: str,
        *,
        results: Sequence[int] | None = None,
        query: str | None = None,
        limit: int | None = None,
        branch: int | None = None,
        token: str | None = None,
    ) -> RecallView:
        """Complete results: those at the positions `results`, or those that answer `query` best."""
        wanted = {"results": results and list(results), "query": query, "limit": limit}
        return cast(
            RecallView,
            await self.call("recall", {"session": session, "branch": branch, **wanted}, token),
        )

    async def list_sessions(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        query: str | None = None,
        token: str | None = None,
    ) -> SessionPage:
        """A page of the caller's sessions, newest first; its `next` is the next page's cursor.

        With a `query`, only those with it in their name.
        """
        fields = {"limit": limit, "cursor": cursor, "query": query}
        return cast(SessionPage, await self.call("list_sessions", fields, token))

    async def inspect_session(self, session: str, *, branch: int | None = None) -> InspectView:
        """A session's shape, without contents."""
        return cast(
            InspectView, await self.call("inspect_session", {"session": session, "branch": branch})
        )

    async def export_session(self, session: str) -> ExportView:
        """A whole session, to be kept or imported elsewhere."""
        return cast(ExportView, await self.call("export_session", {"session": session}))

    async def import_session(
        self, data: Mapping[str, Any], *, session: str | None = None
    ) -> SyncView:
        """Makes a session from what `export_session` gave, under its own name unless given."""
        return cast(SyncView, await self.call("import_session", {"data": data, "session": session}))

    async def delete_session(self, session: str) -> DeleteView:
        """Removes a session and all that it holds."""
        self._sent.forget((self._token, session, ""))
        return cast(DeleteView, await self.call("delete_session", {"session": session}))

    async def call(self, walker: str, fields: Mapping[str, Any], token: str | None = None) -> Json:
        """A walker's report; fields that are None are left to the service."""
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            body = wire.dumps(given)
        except (TypeError, ValueError) as error:
            sentence = f"This cannot be sent as JSON: {error}."
            raise InvalidRequest("invalid_json", 0, sentence) from error
        path = f"/walker/{walker}"
        pause = FIRST_PAUSE
        left = 0 if walker in NOT_REPEATABLE else self._retries
        while True:
            try:
                return await self._asked(path, body, token)
            except (Unreachable, ServerError) as error:
                if not left or error.status not in (0, 502, 503, 504):
                    raise
            left -= 1
            await asyncio.sleep(pause)
            pause *= 2

    async def _asked(self, path: str, body: bytes, token: str | None) -> Json:
        """The report; with a fresh token if the client's own is no longer good."""
        used = token or self._token
        try:
            return await self._post(path, body, used)
        except Unauthorized:
            if token is not None or not await self._refresh(used):
                raise
        return await self._post(path, body, self._token)

    async def _refresh(self, used: str) -> bool:
        """Whether there is another token to try."""
        if self._token == used and self._login is not None:
            name, password = self._login
            fields = wire.dumps({"username": name, "password": password})
            self._token = str((await self._body("/user/login", fields, None))["token"])
        elif self._token == used and not self._token_given:
            try:
                self._token = resolve_credentials(self.url, None).token
            except NoCredentials:
                return False
        return self._token != used

    async def _post(self, path: str, body: bytes, token: str) -> Json:
        answer = await self._body(path, body, token)
        if not answer.get("reports"):
            raise error_of(200, answer)
        return cast(Json, answer["reports"][0])

    async def _body(self, path: str, body: bytes, token: str | None) -> Json:
        """The JSON object that answers. Raises a ContextRenderError."""
        status, content = await self._exchange(path, body, token)
        try:
            answer = wire.loads(content)
        except ValueError:
            answer = None
        if not (200 <= status < 300 and isinstance(answer, dict)):
            raise error_of(status, answer)
        return answer

    async def _exchange(self, path: str, body: bytes, token: str | None) -> tuple[int, bytes]:
        """The status and the body that answer. Raises Unreachable."""
        headers = {**_JSON, "authorization": f"Bearer {token}"} if token else _JSON
        try:
            response = await self._http.post(path, content=body, headers=headers)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable("unreachable", 0, f"No answer from {self.url}: {reason}.") from error
        return response.status_code, response.content

    async def _send_new(
        self,
        walker: str,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        token: str | None,
        line: str,
    ) -> Json:
        """Sends the messages after those the service has; all of them when it disagrees."""
        key = (token or self._token, fields["session"], line)
        known, now = self._sent.compare(key, messages)
        count = len(messages)
        try:
            reply = await self._send_from(known, walker, messages, fields, token)
        except HistoryDiverged:
            if not known.messages:
                raise
            reply = await self._send_from(Known(), walker, messages, fields, token)
        self._sent.remember(key, Known(count, now, reply["digest"]))
        return reply

    async def _send_from(
        self,
        known: Known,
        walker: str,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        token: str | None,
    ) -> Json:
        place = {"offset": known.messages, "prefix": known.digest}
        fresh = list(messages[known.messages :])
        return await self.call(walker, {**fields, **place, "messages": fresh}, token)
