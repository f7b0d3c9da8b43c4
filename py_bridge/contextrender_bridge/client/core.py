"""The API as flows, which both clients run.

Each method takes the whole message list and sends only the new messages. Long because it has each
method of the API once, with its documentation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, cast

from contextrender_bridge.base.errors import HistoryDiverged, InvalidRequest, OtherConversation
from contextrender_bridge.base.settings import DEADLINE, current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.connection import Connection, Flow
from contextrender_bridge.client.fitting import (
    Failures,
    RenderedRequest,
    apply_plan,
    dialect_of,
    is_callers_mistake,
    is_kept_by_provider,
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
from contextrender_bridge.client.session_names import SessionNames, name_of_body
from contextrender_bridge.dialects import Dialect, Transcript
from contextrender_bridge.dialects.chat import check_messages

Message = Mapping[str, Any]

WARNED = 1024
"""The number of histories for which a warning is remembered."""


class Core(Connection):
    """The API's methods. Each is a `Flow`, and returns the reply or raises an error.

    The replies have the types in `replies`. If `token` is given, the call is made as the user with
    this token. `history_key` distinguishes histories that run in parallel in one session.
    """

    def __init__(self, url: str | None = None, token: str | None = None, **options: Any) -> None:
        """Take the options of `Connection`. Begin with empty caches."""
        super().__init__(url, token, **options)
        self.failures = Failures()
        self._histories = HistoryCache()
        self._names = SessionNames()
        self._warned: dict[Key, None] = {}
        """Histories for which the log says that they are above their budget."""

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
        history_key: str = "",
        one_conversation: bool = False,
    ) -> Flow[RenderView]:
        """Record the new messages of a history and return the next call's prompt.

        - `budget`, `policy`, `parameters`: apply to this call; None for the session's setting.
        - `pinned_tools`, `pinned_calls`: names of tools, which may contain `*` and `?`, and ids of
          tool calls. Their results are shown if they fit, and the reply lists them in `pinned`.
        - `model`: the model whose tokenizer counts the tokens, from the session's first call.
        - `output`: "plan" if the reply should have the plan instead of the messages.
        - `answer_before_commit`: the service replies before the new messages are on disk. If the
          write fails, the next call sends them again.
        - `agent_defaults`: use the defaults of `fit`, which are `contextrender_cache_aware` and the
          automatic budget, for a policy or a budget that neither the call nor the session sets.
        - `delivery`: what the model receives, "rendered", "full" or "holdout". It is recorded.
        - `client`: the name of the calling program. It is recorded.
        - `usage`: the provider's usage of an earlier call, as in `record_usage`. It is recorded
          with that call.
        - `token`: the token of the user who makes the call; None for the client's own.
        - `history_key`: a name that distinguishes histories that run in parallel in the session.
        - `one_conversation`: as in `sync`.
        """
        settings: dict[str, Any] = {"budget": budget, "policy": policy, "model": model}
        settings |= {"parameters": parameters, **_pins(pinned_tools, pinned_calls)}
        modes = {  # None is not sent, as false is the service's default
            "output": output,
            "answer_before_commit": answer_before_commit or None,
            "agent_defaults": agent_defaults or None,
            "one_conversation": one_conversation or None,
        }
        metadata = {"delivery": delivery, "client": client, "usage": usage and dict(usage)}
        fields = {"session": session, **settings, **modes, **metadata}
        return cast(
            RenderView, (yield from self._send_new("render", messages, fields, token, history_key))
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
        history_key: str = "",
    ) -> Flow[RenderedRequest]:
        """Render a request, and return it. If that fails, return the original request.

        Return the original request, too, if the provider keeps the history, because then there is
        nothing to render. Raise InvalidRequest if the policy is unknown, if the budget or a
        parameter is invalid, or if an item of chat `messages` is no message with a known role.

        - `session`: None to make the session's name from the history's beginning (`find_session`).
        - `messages`: chat messages, or a whole request body of `dialect` (chat, responses,
          messages, observations). Items that are shown in full are the caller's own objects.
        - `budget`, `policy`: None for `CONTEXTRENDER_BUDGET` and `CONTEXTRENDER_POLICY`; if these
          are not set, the session's are used.
        - `bypass_tools`: tools whose results are always complete and do not count for the budget.
        - `deadline`: the time limit in seconds.
        - `fail_open`: if false, errors are raised.
        - `recalls`: the model has a tool to recall results, so excerpts give the result's number.

        The other parameters are those of `render`.
        """
        stop_at = time.monotonic() + deadline
        # An invalid message is the caller's mistake, so it is not covered by `fail_open`.
        if dialect == "chat" and not isinstance(messages, Mapping):
            check_messages(messages)
        body = messages if isinstance(messages, Mapping) else {"messages": list(messages)}
        if is_kept_by_provider(body):
            return RenderedRequest(body)
        try:
            # Collect the settings of the call. Without a session, make a name from the messages.
            defaults = current_settings()
            reader = dialect_of(dialect, body)
            name = name_of_body(reader, body) if session is None else session
            key = Key(token, name, history_key)
            fields = {
                "budget": defaults.budget if budget is None else budget,
                "policy": defaults.policy if policy is None else policy,
                "parameters": parameters,
                "model": model,
                **_pins(pinned_tools, pinned_calls),
                "output": "plan",
                "answer_before_commit": True,
                "agent_defaults": True,
                "one_conversation": True if session is None else None,
            }
            bypass = _to_list("bypass_tools", bypass_tools) or ()
            # Ask the service for a plan.
            render = self._render_items(reader, body, key, fields, stop_at)
            try:
                reply, key, transcript = yield from render
            except OtherConversation:
                # Another call has continued the session with another conversation meanwhile. Try
                # once more, which finds another session.
                render = self._render_items(reader, body, key, fields, stop_at)
                reply, key, transcript = yield from render
            if reply is None:  # There are no messages.
                return RenderedRequest(body)
            # Apply the plan to the caller's request.
            rendered = apply_plan(body, transcript, reply, bypass, recalls=recalls)
            self.failures.note_success()
            self._warn_once(key, rendered.failure)
            return rendered
        except Exception as failure:
            if not fail_open or is_callers_mistake(failure):
                raise
            self.failures.add(reason_of(failure), remedy_of(failure))
            return RenderedRequest(body, failure=reason_of(failure))

    def _render_items(
        self,
        reader: Dialect,
        body: Mapping[str, Any],
        key: Key,
        fields: Mapping[str, Any],
        stop_at: float,
    ) -> Flow[tuple[RenderView | None, Key, Transcript]]:
        """Read and render the history of a request body.

        Return the service's reply, the history's key and its transcript. The reply is None if there
        are no messages. `fields` are the fields of `render` beside the session and the messages. If
        `one_conversation` is set, the session's name in `key` was made from the beginning of the
        history, and the returned key may have another name.
        """
        key, transcript, snapshot = yield from self._read_history(
            reader, body, key, fields["model"], stop_at, is_named=not fields["one_conversation"]
        )
        if not transcript.messages:
            return None, key, transcript
        fields = {**fields, "session": key.session}
        reply = yield from self._send("render", key, snapshot, fields, stop_at)
        return cast(RenderView, reply), key, transcript

    def _read_history(
        self,
        reader: Dialect,
        body: Mapping[str, Any],
        key: Key,
        model: str | None,
        stop_at: float,
        *,
        is_named: bool,
    ) -> Flow[tuple[Key, Transcript, HistorySnapshot]]:
        """Read the history of a request body; return its key, its transcript and a snapshot.

        Continue from the transcript of the history's last call if it is cached. If `is_named` is
        false, the session's name in `key` was made from the beginning of the history, so it may be
        another conversation's. Unless the history is cached under this name, ask the service
        (`_find_session`), and return a key with the name that the service accepted.
        """
        # Find the history in the cache, and read the items that it does not have.
        items = body.get(reader.key)
        items = items if isinstance(items, list) else []
        cached = self._histories.find(key, items)
        transcript = reader.read(body, cached.transcript if cached else None)
        if transcript.messages and not is_named and cached is None:
            name = yield from self._find_session(key, items, transcript, model, stop_at)
            key = key._replace(session=name)
            # The search may have recorded and cached the history.
            cached = self._histories.find(key, items)
            if cached:
                transcript = reader.read(body, cached.transcript)
        # If no message was reused, the whole history was read again and may differ from the cached
        # one. Then the snapshot must not rely on the cache.
        continued = cached if transcript.reused_count else None
        return key, transcript, self._histories.snapshot(key, items, transcript, continued)

    def _warn_once(self, key: Key, failure: str) -> None:
        """Count and log `failure` once for each history. Do nothing if it is empty."""
        if failure and key not in self._warned:
            self._warned[key] = None
            if len(self._warned) > WARNED:
                del self._warned[next(iter(self._warned))]
            self.failures.add(failure)

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
        history_key: str = "",
    ) -> Flow[SyncView]:
        """Record the new messages of a history. `settings` become the session's defaults.

        If the messages differ from the recorded ones or end before them, they may be of another
        conversation. With `one_conversation`, raise OtherConversation then, unless they are certain
        to be of the same one.
        """
        fields: dict[str, Any] = {
            "session": session,
            "settings": settings,
            "model": model,
            "usage": usage and dict(usage),
            "one_conversation": one_conversation or None,
        }
        return cast(
            SyncView, (yield from self._send_new("sync", messages, fields, token, history_key))
        )

    def find_session(
        self,
        name: str,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        token: str | None = None,
        history_key: str = "",
    ) -> Flow[str]:
        """Return the name of the session that a history continues, or a new name.

        `name` is made from the beginning of the history, so another conversation may have it. The
        search may record the history's messages in the session that it returns.
        """
        # The items are the messages themselves, and there is no deadline.
        return self._find_session(Key(token, name, history_key), messages, None, model, inf)

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
        """Return why the prompt of a turn shows or omits each result.

        The default is the prompt of the next turn.
        """
        place = {"session": session, "turn": turn, "branch": branch}
        settings = {"budget": budget, "policy": policy, "parameters": parameters}
        return cast(ExplainView, (yield from self.call("explain", {**place, **settings}, token)))

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
        """Return complete results: at the positions `results`, or the best ones for `query`."""
        selection = {"results": results and list(results), "query": query, "limit": limit}
        fields = {"session": session, "branch": branch, **selection}
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
        """Return a page of the user's sessions, newest first.

        To get the next page, pass the reply's `next` as `cursor`. `query` limits the list to
        sessions that contain it in their name, folder, first words, client, model or tools. `since`
        limits it to sessions that were written on or after that day (UTC). Costs are computed with
        the user's own `prices`; models that these do not name have list prices.
        """
        page = {"limit": limit, "cursor": cursor}
        fields = {**page, "query": query, "since": since, "prices": prices}
        return cast(SessionPage, (yield from self.call("list_sessions", fields, token)))

    def inspect_session(self, session: str, *, branch: int | None = None) -> Flow[InspectView]:
        """Return the shape of a session, without contents."""
        fields = {"session": session, "branch": branch}
        return cast(InspectView, (yield from self.call("inspect_session", fields)))

    def export_session(self, session: str) -> Flow[ExportView]:
        """Return a whole session, to store or import elsewhere."""
        return cast(ExportView, (yield from self.call("export_session", {"session": session})))

    def import_session(
        self, data: Mapping[str, Any], *, session: str | None = None
    ) -> Flow[SyncView]:
        """Create a session from an export, with the exported name or the name `session`."""
        fields = {"data": data, "session": session}
        return cast(SyncView, (yield from self.call("import_session", fields)))

    def delete_session(self, session: str, *, updated_at: float | None = None) -> Flow[DeleteView]:
        """Delete a session.

        If `updated_at` is given and the session was written after that time, raise Conflict.
        """
        self._histories.forget(Key(None, session, ""))
        fields = {"session": session, "updated_at": updated_at}
        return cast(DeleteView, (yield from self.call("delete_session", fields)))

    def recorded_count(
        self, session: str, messages: Sequence[Message], *, token: str | None, history_key: str
    ) -> int:
        """Return how many of the first messages this client knows to be recorded.

        It is 0 if the history is not cached or differs from the cached one. No request is sent.
        """
        cached = self._histories.find(Key(token, session, history_key), messages)
        return cached.prefix.messages if cached else 0

    def drop_large_histories(self) -> None:
        """Drop the texts of large histories from memory.

        The next call of such a history takes longer, because it reads and compares all messages.
        """
        self._histories.drop_large()

    def _find_session(
        self,
        key: Key,
        items: Sequence[Any],
        transcript: Transcript | None,
        model: str | None,
        stop_at: float,
    ) -> Flow[str]:
        """Return the name of the session that a history continues, or a new name.

        Try to record the history in the session named in `key`. If the service refuses it, because
        the session has another conversation, make a new name from the messages up to the first that
        differs, and try again, until the service accepts it. If the history is cached under a name,
        return that name without asking the service.

        `transcript` is what a dialect read from `items`; None if the items are the messages.
        """
        messages = transcript.messages if transcript else items
        # Each next name is made from more messages than the one before, so the loop ends.
        for _ in range(len(messages) + 1):
            name = self._names.find(key.token, key.session, messages)
            key = key._replace(session=name)
            if self._histories.find(key, items):
                break  # An earlier call has recorded this history under the name.
            snapshot = self._histories.snapshot(key, items, transcript, None)
            fields = {"session": name, "model": model, "one_conversation": True}
            try:
                yield from self._send("sync", key, snapshot, fields, stop_at)
                break
            except OtherConversation as error:
                fork = int(str(error.details.get("fork") or 0))
                self._names.add(key.token, name, messages, fork)
        return key.session

    def _send_new(
        self,
        walker: str,
        messages: Sequence[Message],
        fields: Mapping[str, Any],
        token: str | None,
        history_key: str,
    ) -> Flow[Json]:
        """Send the messages that the service lacks, or all if its history differs.

        `walker` is the walker to call, and `fields` its fields without the messages. Return its
        reply.
        """
        messages = list(messages)
        key = Key(token, fields["session"], history_key)
        cached = self._histories.find(key, messages)
        if cached and cached.transcript is not None:
            # `fit` cached other messages: those that a dialect had read from these items.
            cached = None
        snapshot = self._histories.snapshot(key, messages, None, cached)
        return (yield from self._send(walker, key, snapshot, fields, stop_at=inf))

    def _send(
        self,
        walker: str,
        key: Key,
        snapshot: HistorySnapshot,
        fields: Mapping[str, Any],
        stop_at: float,
    ) -> Flow[Json]:
        """Call a walker with the messages after the snapshot's recorded prefix; return the reply.

        If the service's history differs from that prefix, call it again with all messages. Then
        cache that all messages are recorded. If the service has another conversation, forget the
        cached history and raise OtherConversation.
        """

        def send_from(recorded_prefix: RecordedPrefix) -> Flow[Json]:
            """Send the messages after this recorded prefix, and return the reply."""
            position = {"offset": recorded_prefix.messages, "prefix": recorded_prefix.digest}
            new_messages = snapshot.messages[recorded_prefix.messages :]
            return self.call(
                walker, {**fields, **position, "messages": new_messages}, key.token, stop_at
            )

        # Send the new messages, or all if the service does not have this prefix.
        try:
            reply = yield from send_from(snapshot.prefix)
        except HistoryDiverged:
            if not snapshot.prefix.messages:
                raise
            reply = yield from send_from(RecordedPrefix())
        except OtherConversation:
            self._histories.forget(key)
            raise
        # Now all messages are recorded.
        self._histories.remember(key, snapshot, reply["digest"])
        return reply


def _pins(pinned_tools: Sequence[str] | None, pinned_calls: Sequence[str] | None) -> Json:
    """Return the fields of `render` that name the pinned tools and calls."""
    return {
        "pinned_tools": _to_list("pinned_tools", pinned_tools),
        "pinned_calls": _to_list("pinned_calls", pinned_calls),
    }


def _to_list(setting: str, names: Sequence[str] | None) -> list[str] | None:
    """Return the names as a list. Raise InvalidRequest if `names` is a text."""
    if isinstance(names, str):
        raise InvalidRequest(f"{setting} is a list of names", setting=True)
    return None if names is None else list(names)
