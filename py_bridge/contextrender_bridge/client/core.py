"""The API as flows, for both clients: what each method sends and what it makes of the answer.

It takes the whole message list every time and sends only what is new. Long because each method of
the API is there once, with its documentation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, cast

from contextrender_bridge.client.connection import Connection
from contextrender_bridge.client.fitting import (
    Failures,
    Fitted,
    dialect_of,
    fitted,
    is_callers_mistake,
    reason_of,
)
from contextrender_bridge.client.flow import Flow
from contextrender_bridge.client.replies import (
    DeleteView,
    ExplainView,
    ExportView,
    InspectView,
    RecallView,
    RenderView,
    SessionPage,
    SyncView,
)
from contextrender_bridge.client.sent import Known, Sent
from contextrender_bridge.client.session_names import name_of
from contextrender_bridge.errors import HistoryDiverged, InvalidRequest
from contextrender_bridge.settings import DEADLINE
from contextrender_bridge.wire import Json

Message = Mapping[str, Any]


class Core(Connection):
    """Every method is a flow that gives the reply, typed in `replies`, or raises.

    `token` is that of another user for this call, and `line` tells histories of one session apart
    that go on side by side.
    """

    def __init__(self, url: str | None = None, token: str | None = None, **options: Any) -> None:
        """As `Connection`; nothing is known to be sent yet."""
        super().__init__(url, token, **options)
        self.failures = Failures()
        self._sent = Sent()

    def render(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        keep_tools: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        model: str | None = None,
        want: str = "messages",
        early: bool = False,
        live: bool = False,
        sent: str | None = None,
        client: str | None = None,
        used: Mapping[str, Any] | None = None,
        token: str | None = None,
        line: str = "",
    ) -> Flow[RenderView]:
        """Records what is new of `messages`, and answers with the history for the next model call.

        `budget`, `policy` and `parameters` are this call's, otherwise the session's; `model`, on
        the first call, is the model whose tokens are counted. `want` "plan" leaves out the
        messages: what to show is then in `plan`. `early`: it answers before what is new is on disk;
        should that fail, the next call sends it again. `live`: where neither call nor session says,
        `contextrender_frozen` at 24,000 tokens, as for `fit`. `token` is another user's for this
        call, and `line` tells histories of one session apart that go on side by side. Results of
        the tools `keep_tools` names (with `*`, `?`) and of the calls with the ids `keep` are shown
        while there is room; `kept` in the reply says how. `sent` ("rendered", "whole", "held_out")
        is what the model gets, `client` the caller's name, `used` what the provider said of an
        earlier call (as `note_usage` has it): they are noted with the call.
        """
        asked: dict[str, Any] = {"budget": budget, "policy": policy, "model": model}
        asked |= {"parameters": parameters, **_pins(keep_tools, keep)}
        how = {"want": want, "early": early or None, "live": live or None}
        noted = {"sent": sent, "client": client, "used": used and dict(used)}
        fields = {"session": session, **asked, **how, **noted}
        return cast(
            RenderView, (yield from self._send_new("render", messages, fields, token, line))
        )

    def fit(
        self,
        session: str | None,
        messages: Sequence[Message] | Mapping[str, Any],
        *,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        keep_tools: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
        bypass_tools: Sequence[str] | None = None,
        model: str | None = None,
        dialect: str = "chat",
        deadline: float = DEADLINE,
        fail_open: bool = True,
        token: str | None = None,
        line: str = "",
    ) -> Flow[Fitted]:
        """What to send to the model in place of `messages`; the original when anything goes wrong.

        But for a budget, policy or parameters that cannot be: they raise InvalidRequest.

        `messages` are chat messages, or a whole request body of `dialect` (chat, responses,
        messages, observations). The items that stay are the caller's own objects. `deadline` is in
        seconds; without `fail_open` it raises what went wrong. Without a session, how the history
        begins names it. Results of `bypass_tools` stay as they are, also on top of the budget.
        `token`, `line`, `keep_tools` and `keep` as for `render`.
        """
        until = time.monotonic() + deadline
        body = messages if isinstance(messages, Mapping) else {"messages": list(messages)}
        try:
            transcript = dialect_of(dialect, body).read(body)
            if not transcript.messages:
                return Fitted(body)
            session = name_of(transcript.messages) if session is None else session
            asked: dict[str, Any] = {"budget": budget, "policy": policy, "model": model}
            asked |= {"parameters": parameters, **_pins(keep_tools, keep)}
            bypass = _listed("bypass_tools", bypass_tools) or ()
            fields = {**asked, "want": "plan", "session": session, "early": True, "live": True}
            send = self._send_new("render", transcript.messages, fields, token, line, until)
            return fitted(body, transcript, cast(RenderView, (yield from send)), bypass=bypass)
        except Exception as failure:
            if not fail_open or is_callers_mistake(failure):
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
        used: Mapping[str, Any] | None = None,
        token: str | None = None,
        line: str = "",
    ) -> Flow[SyncView]:
        """Records what is new of `messages`; `settings` become the session's own."""
        asked = {"settings": settings, "model": model, "used": used and dict(used)}
        fields = {"session": session, **asked}
        return cast(SyncView, (yield from self._send_new("sync", messages, fields, token, line)))

    def explain(
        self,
        session: str,
        *,
        turn: int | None = None,
        branch: int | None = None,
        budget: int | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        token: str | None = None,
    ) -> Flow[ExplainView]:
        """Why each result is shown or not at a turn, the next one unless given."""
        where = {"session": session, "turn": turn, "branch": branch}
        asked = {"budget": budget, "policy": policy, "parameters": parameters}
        return cast(ExplainView, (yield from self.call("explain", {**where, **asked}, token)))

    def recall(
        self,
        session: str,
        *,
        results: Sequence[int] | None = None,
        query: str | None = None,
        limit: int | None = None,
        branch: int | None = None,
        token: str | None = None,
    ) -> Flow[RecallView]:
        """Complete results: those at the positions `results`, or those that answer `query` best."""
        wanted = {"results": results and list(results), "query": query, "limit": limit}
        fields = {"session": session, "branch": branch, **wanted}
        return cast(RecallView, (yield from self.call("recall", fields, token)))

    def list_sessions(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        query: str | None = None,
        token: str | None = None,
    ) -> Flow[SessionPage]:
        """A page of the caller's sessions, newest first; its `next` is the next page's cursor.

        With a `query`, only those with it in their name.
        """
        fields = {"limit": limit, "cursor": cursor, "query": query}
        return cast(SessionPage, (yield from self.call("list_sessions", fields, token)))

    def inspect_session(self, session: str, *, branch: int | None = None) -> Flow[InspectView]:
        """A session's shape, without contents."""
        fields = {"session": session, "branch": branch}
        return cast(InspectView, (yield from self.call("inspect_session", fields)))

    def export_session(self, session: str) -> Flow[ExportView]:
        """A whole session, to be kept or imported elsewhere."""
        return cast(ExportView, (yield from self.call("export_session", {"session": session})))

    def import_session(
        self, data: Mapping[str, Any], *, session: str | None = None
    ) -> Flow[SyncView]:
        """Makes a session from what `export_session` gave, under its own name unless given."""
        fields = {"data": data, "session": session}
        return cast(SyncView, (yield from self.call("import_session", fields)))

    def delete_session(self, session: str, *, updated_at: float | None = None) -> Flow[DeleteView]:
        """Removes a session and all it holds; with `updated_at` only as it was then, else 409."""
        self._sent.forget((None, session, ""))
        fields = {"session": session, "updated_at": updated_at}
        return cast(DeleteView, (yield from self.call("delete_session", fields)))

    def _send_new(
        self,
        walker: str,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        token: str | None,
        line: str,
        until: float = inf,
    ) -> Flow[Json]:
        """Sends the messages after those the service has; all of them when it disagrees."""
        messages = list(messages)
        key = (token, fields["session"], line)
        known, now = self._sent.compare(key, messages)

        def send_from(known: Known) -> Flow[Json]:
            place = {"offset": known.messages, "prefix": known.digest}
            fresh = messages[known.messages :]
            return self.call(walker, {**fields, **place, "messages": fresh}, token, until)

        try:
            reply = yield from send_from(known)
        except HistoryDiverged:
            if not known.messages:
                raise
            reply = yield from send_from(Known())
        self._sent.remember(key, Known(len(messages), now, reply["digest"]))
        return reply


def _pins(keep_tools: Sequence[str] | None, keep: Sequence[str] | None) -> Json:
    return {"keep_tools": _listed("keep_tools", keep_tools), "keep": _listed("keep", keep)}


def _listed(setting: str, names: Sequence[str] | None) -> list[str] | None:
    """Names as a list. Raises InvalidRequest for one text in place of a list."""
    if isinstance(names, str):
        raise InvalidRequest(f"{setting} is a list of names", setting=True)
    return None if names is None else list(names)
