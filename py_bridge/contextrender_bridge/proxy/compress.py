"""`POST /v1/compress` and `GET /v1/retrieve/{id}`: what gateways' compression guardrails call.

A gateway sends messages and gets back as many: where a result was taken out, a line with its id is
in its place. An id tells the session and the position, so it stays valid as long as the session
is recorded.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import InvalidRequest, NotFound, Unauthorized
from contextrender_bridge.base.setting_kinds import AUTO, LONGEST_NUMBER, SMALLEST_BUDGET
from contextrender_bridge.base.usage_reading import usage_of
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import RenderedRequest, reason_of
from contextrender_bridge.dialects import MessagePlan
from contextrender_bridge.dialects.contents import plain_text
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.controls import Controls
from contextrender_bridge.proxy.conversations import ProxiedCall
from contextrender_bridge.proxy.history_rendering import Histories
from contextrender_bridge.proxy.placeholders import digest_of, has_blocks, texts_for, with_calls

_ID = re.compile(r"[0-9a-f]{24}")
REMEMBERED = 4096
MARK_TOKENS = 32
"""About what the line in place of a result costs."""

PAGE = 100


@dataclass(slots=True, frozen=True)
class LastReply:
    """A reply's messages, as hashes, and the call that it was for."""

    messages: list[int]
    call: ProxiedCall


class Compression:
    """Both endpoints."""

    def __init__(self, histories: Histories) -> None:
        """Asks the service through `histories`."""
        self._histories = histories
        self._sessions: OrderedDict[tuple[str | None, str], str] = OrderedDict()
        self._last: OrderedDict[tuple[str | None, str], LastReply] = OrderedDict()

    async def compress(
        self, path: str, headers: Headers, body: Mapping[str, Any], asked: Controls
    ) -> Json:
        """The reply to a request of `messages` and `model`; or of a call's `session` and `usage`.

        `unchanged`: how many leading messages are what the session's last reply had. Up to there a
        provider's cache has the prompt, if it was sent so.
        """
        if "usage" in body and "messages" not in body:
            return self._note(body, asked)
        messages = body.get("messages")
        if not isinstance(messages, list):
            raise InvalidRequest("Field 'messages' must be a list.")
        budget = body.get("budget", body.get("token_budget"))
        if budget == AUTO or (
            type(budget) is int and SMALLEST_BUDGET <= budget < 10**LONGEST_NUMBER
        ):
            asked = replace(asked, budget=budget)
        try:
            reply, call = await self._compress(path, headers, body, messages, asked)
            return {**reply, "unchanged": self._unchanged(asked.token, reply, call)}
        except (LookupError, TypeError, AttributeError, ValueError) as failure:
            # Messages that are none: the provider says so better than we.
            self._histories.failures.add(reason_of(failure))
            return {**_report(messages, 0, 0, [], ""), "fail_open": "malformed", "unchanged": 0}

    def _unchanged(self, token: str | None, reply: Json, call: ProxiedCall) -> int:
        """How many leading messages the last reply had as well; this one is the last from here."""
        key = token, str(reply["session"])
        now = [hash(wire.dumps(message)) for message in reply["messages"]]
        before = self._last.pop(key).messages if key in self._last else []
        failure = call.fit.failure if call.fit.reply is None else ""
        self._last[key] = LastReply(now, replace(call, fit=RenderedRequest({}, failure=failure)))
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
        return sum(1 for _ in same)

    def _note(self, body: Mapping[str, Any], asked: Controls) -> Json:
        """Tells the service what the provider said of the session's last call."""
        session, told = str(body.get("session") or ""), body.get("usage")
        usage = usage_of(str(body.get("model") or ""), told) if isinstance(told, Mapping) else None
        if usage is None:
            raise InvalidRequest("Field 'usage' must be a provider's usage.")
        last = self._last.get((asked.token, session))
        if last is None:
            raise NotFound("No messages of this session came through here.")
        self._histories.notes.add(last.call, usage, last.call.asked.delivery)
        return {"session": session, "recorded": True}

    async def _compress(
        self,
        path: str,
        headers: Headers,
        body: Mapping[str, Any],
        messages: list[Any],
        asked: Controls,
    ) -> tuple[Json, ProxiedCall]:
        dialect = "messages" if has_blocks(messages) else "chat"
        added, whole = (set(), messages) if dialect == "messages" else with_calls(messages)
        request = {**body, "messages": whole}
        call = await self._histories.fit(path, headers, Body(request), dialect, asked)
        fit = await call.told(self._histories.deadline)
        transcript = fit.transcript
        if call.asked.whole_for or fit.reply is None or fit.plan is None or transcript is None:
            told: Json = {"fail_open": fit.failure} if fit.failure else {}
            if call.asked.whole_for:
                told["full_history"] = call.asked.whole_for
            return {**_report(messages, 0, 0, [], call.session), **told}, call
        self._remember(asked.token, call.session)
        texts = texts_for(call.session, fit.reply, fit.plan, transcript.messages)
        rows = MessagePlan.full_history(transcript.messages)
        for position, (_, text) in texts.items():
            rows.replace(position, text)
        left = [
            row
            for number, row in enumerate(transcript.apply(rows)["messages"])
            if number not in added
        ]
        after = fit.reply[
            "tokens_before" if fit.results_beyond_budget else "tokens_after"
        ] + MARK_TOKENS * len(texts)
        ids = [id for id, _ in texts.values()]
        after = min(after, fit.reply["tokens_before"])
        return _report(left, fit.reply["tokens_before"], after, ids, call.session), call

    async def retrieve(self, id: str, asked: Controls) -> Json:
        """The complete result of that id."""
        if not asked.identified:
            raise Unauthorized("Send a token: `x-contextrender-token: TOKEN`.")
        token = asked.token
        if not _ID.fullmatch(id):
            raise NotFound("There is no such id.")
        branch, position = int(id[16:18], 16), int(id[18:], 16)
        session = await self._session(id[:16], token)
        reply = await self._histories.client.recall(
            session, results=[position], branch=branch, token=token
        )
        found = reply["results"][0]
        text = plain_text(found["message"].get("content"))
        return {
            "hash": id,
            "session": session,
            "position": position,
            "tool_name": found["name"],
            "arguments": found["arguments"],
            "original_content": text,
            "original_tokens": found["tokens"],
            "message": found["message"],
        }

    async def _session(self, digest: str, token: str | None) -> str:
        """The caller's session of that digest."""
        known = self._sessions.get((token, digest))
        if known is not None:
            return known
        cursor: str | None = None
        while True:
            page = await self._histories.client.list_sessions(
                limit=PAGE, cursor=cursor, token=token
            )
            for session in page["sessions"]:
                if digest_of(session["session"]) == digest:
                    self._remember(token, session["session"])
                    return str(session["session"])
            cursor = page["next"]
            if cursor is None:
                raise NotFound("There is no such id.")

    def _remember(self, token: str | None, session: str) -> None:
        self._sessions[(token, digest_of(session))] = session
        while len(self._sessions) > REMEMBERED:
            self._sessions.popitem(last=False)


def _report(messages: Any, before: int, after: int, ids: list[str], session: str) -> Json:
    return {
        "messages": messages,
        "tokens_before": before,
        "tokens_after": after,
        "tokens_saved": before - after,
        "compression_ratio": after / before if before else 1.0,
        "transforms_applied": ["contextrender"] if before != after else [],
        "ccr_hashes": ids,
        "session": session,
    }
