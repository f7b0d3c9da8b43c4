"""The API as flows, for both clients: what each method sends and what it makes of the answer.

It takes the whole message list every time and sends only what is new. Long because each method of
the API is there once, with its documentation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, cast

from contextrender_bridge.base.errors import HistoryDiverged, InvalidRequest
from contextrender_bridge.base.settings import DEADLINE, current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.connection import Connection, Flow
from contextrender_bridge.client.fitting import (
    Failures,
    RenderedRequest,
    dialect_of,
    fitted,
    is_callers_mistake,
    name_of_body,
    reason_of,
    remedy_of,
)
from contextrender_bridge.client.history_cache import (
    HistoryCache,
    HistorySnapshot,
    Key,
    RecordedPrefix,
)
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
from contextrender_bridge.dialects import Transcript

Message = Mapping[str, Any]

WARNED = 1024
"""Histories that are remembered to have been warned of."""


class Core(Connection):
    """Every method is a flow that gives the reply, typed in `replies`, or raises.

    `token` calls as another user. `line` tells apart histories that run side by side in one
    session.
    """

    def __init__(self, url: str | None = None, token: str | None = None, **options: Any) -> None:
        super().__init__(url, token, **options)
        self.failures = Failures()
        self._sent = HistoryCache()
        self._warned: dict[Key, None] = {}
        """Histories of which it was said that they are above their budget."""

    def render(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        budget: int | str | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        pinned_tools: Sequence[str] | None = None,
        pinned_calls: Sequence[str] | None = None,
        model: str | None = None,
        output: str = "messages",
        answer_before_commit: bool = False,
        agent_defaults: bool = False,
        delivery: str | None = None,
        client: str | None = None,
        usage: Mapping[str, Any] | None = None,
        token: str | None = None,
        line: str = "",
    ) -> Flow[RenderView]:
        """Records what is new of `messages`, and answers with the history for the next model call.

        `budget`, `policy` and `parameters` are this call's, else the session's. `model`, on the
        first call, is the model whose tokens are counted. With `output` "plan" the reply has the
        plan instead of the messages. With `answer_before_commit` the service answers before the new
        messages are on disk; if the write fails, the next call sends them again. `agent_defaults`:
        use `contextrender_cache_aware` at 24,000 tokens unless call or session set another policy,
        as for `fit`. Results of the tools `pinned_tools` (names with `*`, `?`) and of the calls
        with the ids `pinned_calls` are shown while they fit; `kept` in the reply lists them.
        `delivery` ("rendered", "full", "holdout") is what the model gets, `client` the caller's
        name, `usage` the provider's usage of an earlier call (as in `record_usage`). Both are
        recorded with the call.
        """
        asked: dict[str, Any] = {"budget": budget, "policy": policy, "model": model}
        asked |= {"parameters": parameters, **_pins(pinned_tools, pinned_calls)}
        how = {
            "output": output,
            "answer_before_commit": answer_before_commit or None,
            "agent_defaults": agent_defaults or None,
        }
        noted = {"delivery": delivery, "client": client, "usage": usage and dict(usage)}
        fields = {"session": session, **asked, **how, **noted}
        return cast(
            RenderView, (yield from self._send_new("render", messages, fields, token, line))
        )

    def fit(
        self,
        session: str | None,
        messages: Sequence[Message] | Mapping[str, Any],
        *,
        budget: int | str | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        pinned_tools: Sequence[str] | None = None,
        pinned_calls: Sequence[str] | None = None,
        bypass_tools: Sequence[str] | None = None,
        model: str | None = None,
        dialect: str = "chat",
        deadline: float = DEADLINE,
        fail_open: bool = True,
        recalls: bool = False,
        token: str | None = None,
        line: str = "",
    ) -> Flow[RenderedRequest]:
        """What to send to the model in place of `messages`; the original if anything goes wrong.

        An unknown policy, or an impossible budget or parameter, raises InvalidRequest.

        `messages` are chat messages, or a whole request body of `dialect` (chat, responses,
        messages, observations). Items that stay are the caller's own objects. `deadline` is in
        seconds; without `fail_open` errors are raised. Without a session, one is named by how the
        history begins. Results of `bypass_tools` stay as they are, on top of the budget. With
        `recalls` excerpts name the result's number, for a model that has a tool to recall it.
        `token`, `line`, `pinned_tools` and `pinned_calls` as for `render`. The defaults of
        `budget` and `policy` are those of `CONTEXTRENDER_BUDGET` and `CONTEXTRENDER_POLICY`, else
        the session's.
        """
        until = time.monotonic() + deadline
        body = messages if isinstance(messages, Mapping) else {"messages": list(messages)}
        try:
            reader = dialect_of(dialect, body)
            items = body.get(reader.key)
            items = items if isinstance(items, list) else []
            if session is None:
                session = name_of_body(reader, body)
            key = (token, session, line)
            past = self._sent.past(key, items)
            transcript = reader.read(body, past.transcript if past else None)
            if not transcript.messages:
                return RenderedRequest(body)
            past = past if transcript.carried else None
            settled = items[: transcript.settled]
            now = self._sent.now(key, transcript.messages, settled, past)
            ours = current_settings()
            asked: dict[str, Any] = {"parameters": parameters, "model": model}
            asked["budget"] = ours.budget if budget is None else budget
            asked["policy"] = ours.policy if policy is None else policy
            asked |= _pins(pinned_tools, pinned_calls)
            bypass = _listed("bypass_tools", bypass_tools) or ()
            fields = {
                **asked,
                "output": "plan",
                "session": session,
                "answer_before_commit": True,
                "agent_defaults": True,
            }
            send = self._send("render", key, now, transcript.messages, fields, until, transcript)
            reply = cast(RenderView, (yield from send))
            left = fitted(body, transcript, reply, bypass, recalls=recalls)
            self.failures.end()
            if left.failure and key not in self._warned:
                self._warned[key] = None
                if len(self._warned) > WARNED:
                    del self._warned[next(iter(self._warned))]
                self.failures.add(left.failure)
            return left
        except Exception as failure:
            if not fail_open or is_callers_mistake(failure):
                raise
            self.failures.add(reason_of(failure), remedy_of(failure))
            return RenderedRequest(body, failure=reason_of(failure))

    def sync(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        settings: Mapping[str, Any] | None = None,
        model: str | None = None,
        usage: Mapping[str, Any] | None = None,
        one_conversation: bool = False,
        token: str | None = None,
        line: str = "",
    ) -> Flow[SyncView]:
        """Records what is new of `messages`; `settings` become the session's own.

        With `one_conversation` messages that would begin a new branch raise OtherConversation.
        """
        fields: dict[str, Any] = {
            "session": session,
            "settings": settings,
            "model": model,
            "usage": usage and dict(usage),
            "one_conversation": one_conversation or None,
        }
        return cast(SyncView, (yield from self._send_new("sync", messages, fields, token, line)))

    def explain(
        self,
        session: str,
        *,
        turn: int | None = None,
        branch: int | None = None,
        budget: int | str | None = None,
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
        since: str | None = None,
        prices: list[str] | None = None,
        token: str | None = None,
    ) -> Flow[SessionPage]:
        """A page of the caller's sessions, newest first; its `next` is the next page's cursor.

        With a `query`, only those with it in their name, folder, client, model or tools;
        `since` a day those active from then on. Costs are at `prices` of one's own, else at the
        list's.
        """
        paged = {"limit": limit, "cursor": cursor}
        fields = {**paged, "query": query, "since": since, "prices": prices}
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
        """Makes a session from an export, under its own name unless `session` is given."""
        fields = {"data": data, "session": session}
        return cast(SyncView, (yield from self.call("import_session", fields)))

    def delete_session(self, session: str, *, updated_at: float | None = None) -> Flow[DeleteView]:
        """Deletes a session; with `updated_at` only if it was not written since, else 409."""
        self._sent.forget((None, session, ""))
        fields = {"session": session, "updated_at": updated_at}
        return cast(DeleteView, (yield from self.call("delete_session", fields)))

    def recorded(
        self, session: str, messages: Sequence[Message], *, token: str | None, line: str
    ) -> int:
        """How many of the first messages a call is known to have recorded."""
        past = self._sent.past((token, session, line), messages)
        return past.known.messages if past else 0

    def _send_new(
        self,
        walker: str,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        token: str | None,
        line: str,
    ) -> Flow[Json]:
        """Sends the messages after those the service has; all of them when it disagrees."""
        messages = list(messages)
        key = (token, fields["session"], line)
        past = self._sent.past(key, messages)
        # What `fit` recorded is what it read the same items as.
        past = past if past and past.transcript is None else None
        now = self._sent.now(key, messages, messages, past)
        return (yield from self._send(walker, key, now, messages, fields, inf))

    def _send(
        self,
        walker: str,
        key: Key,
        now: HistorySnapshot,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        until: float,
        transcript: Transcript | None = None,
    ) -> Flow[Json]:
        def send_from(known: RecordedPrefix) -> Flow[Json]:
            place = {"offset": known.messages, "prefix": known.digest}
            fresh = messages[known.messages :]
            return self.call(walker, {**fields, **place, "messages": fresh}, key[0], until)

        try:
            reply = yield from send_from(now.known)
        except HistoryDiverged:
            if not now.known.messages:
                raise
            reply = yield from send_from(RecordedPrefix())
        known = RecordedPrefix(len(messages), now.fingerprint, reply["digest"])
        self._sent.remember(key, now, known, transcript)
        return reply


def _pins(pinned_tools: Sequence[str] | None, pinned_calls: Sequence[str] | None) -> Json:
    return {
        "pinned_tools": _listed("pinned_tools", pinned_tools),
        "pinned_calls": _listed("pinned_calls", pinned_calls),
    }


def _listed(setting: str, names: Sequence[str] | None) -> list[str] | None:
    """Names as a list. Raises InvalidRequest for one text in place of a list."""
    if isinstance(names, str):
        raise InvalidRequest(f"{setting} is a list of names", setting=True)
    return None if names is None else list(names)
