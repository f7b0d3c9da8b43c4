"""`POST /v1/compress` and `GET /v1/retrieve/{id}`: what gateways' compression guardrails call.

A gateway sends messages and gets back as many: where a result was taken out, a line with its id is
in its place. An id tells the session and the position, so it stays good for as long as the session
is recorded.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from contextrender_bridge.client.fitting import reason_of
from contextrender_bridge.client.replies import RenderView
from contextrender_bridge.dialects import MessagePlan
from contextrender_bridge.dialects.contents import plain_text
from contextrender_bridge.errors import ContextRenderError
from contextrender_bridge.proxy.controls import Controls
from contextrender_bridge.proxy.headers import Headers
from contextrender_bridge.proxy.histories import Histories
from contextrender_bridge.setting_kinds import LONGEST_NUMBER, SMALLEST_BUDGET
from contextrender_bridge.wire import Json

_ID = re.compile(r"[0-9a-f]{24}")
_RECALL = re.compile(r"recall result \d+ for all of it")
_BLOCKS = ("tool_use", "tool_result")
REMEMBERED = 4096
MARK_TOKENS = 32
"""About what the line in place of a result costs."""

PAGE = 100


class Refused(Exception):
    """A request that cannot be answered; `args` are its status, code and sentence."""


class Compression:
    """Both endpoints."""

    def __init__(self, histories: Histories) -> None:
        """Asks the service through `histories`."""
        self._histories = histories
        self._sessions: OrderedDict[tuple[str | None, str], str] = OrderedDict()

    async def compress(
        self, path: str, headers: Headers, body: Mapping[str, Any], asked: Controls
    ) -> Json:
        """The reply to a request of `messages` and `model`."""
        messages = body.get("messages")
        if not isinstance(messages, list):
            raise Refused(422, "invalid_request", "Field 'messages' must be a list.")
        budget = body.get("budget", body.get("token_budget"))
        if type(budget) is int and SMALLEST_BUDGET <= budget < 10**LONGEST_NUMBER:
            asked = replace(asked, budget=budget)
        try:
            return await self._compress(path, headers, body, messages, asked)
        except (LookupError, TypeError, AttributeError, ValueError) as failure:
            # Messages that are none: the provider says so better than we.
            self._histories.failures.add(reason_of(failure))
            return {**_report(messages, 0, 0, [], ""), "fail_open": "malformed"}

    async def _compress(
        self,
        path: str,
        headers: Headers,
        body: Mapping[str, Any],
        messages: list[Any],
        asked: Controls,
    ) -> Json:
        dialect = "messages" if _has_blocks(messages) else "chat"
        added, whole = (set(), messages) if dialect == "messages" else _with_calls(messages)
        request = {**body, "messages": whole}
        call = await self._histories.fit(path, headers, request, dialect, asked)
        fit = await call.told(self._histories.deadline)
        transcript = fit.transcript
        if call.asked.whole_for or fit.reply is None or fit.plan is None or transcript is None:
            told: Json = {"fail_open": fit.failure} if fit.failure else {}
            if call.asked.whole_for:
                told["whole"] = call.asked.whole_for
            return {**_report(messages, 0, 0, [], call.session), **told}
        self._remember(asked.token, call.session)
        texts = _texts(call.session, fit.reply, fit.plan, transcript.messages)
        rows = MessagePlan.everything(transcript.messages)
        for position, (_, text) in texts.items():
            rows.replace(position, text)
        left = [
            row
            for number, row in enumerate(transcript.apply(rows)["messages"])
            if number not in added
        ]
        tokens = fit.reply["tokens"]
        after = tokens["before" if fit.beyond else "after"] + MARK_TOKENS * len(texts)
        ids = [id for id, _ in texts.values()]
        return _report(left, tokens["before"], min(after, tokens["before"]), ids, call.session)

    async def retrieve(self, id: str, asked: Controls) -> Json:
        """The complete result of that id."""
        if not asked.identified:
            raise Refused(401, "unauthorized", "Send a token: `x-contextrender-token: TOKEN`.")
        token = asked.token
        if not _ID.fullmatch(id):
            raise Refused(404, "not_found", "There is no such id.")
        branch, position = int(id[16:18], 16), int(id[18:], 16)
        session = await self._session(id[:16], token)
        try:
            reply = await self._histories.client.recall(
                session, results=[position], branch=branch, token=token
            )
        except ContextRenderError as error:
            raise Refused(error.status or 503, error.code, error.message) from None
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
            try:
                page = await self._histories.client.list_sessions(
                    limit=PAGE, cursor=cursor, token=token
                )
            except ContextRenderError as error:
                raise Refused(error.status or 503, error.code, error.message) from None
            for session in page["sessions"]:
                if _digest(session["session"]) == digest:
                    self._remember(token, session["session"])
                    return str(session["session"])
            cursor = page["next"]
            if cursor is None:
                raise Refused(404, "not_found", "There is no such id.")

    def _remember(self, token: str | None, session: str) -> None:
        self._sessions[(token, _digest(session))] = session
        while len(self._sessions) > REMEMBERED:
            self._sessions.popitem(last=False)


def identify(session: str, branch: int, position: int) -> str:
    """The id of a result: 24 hexadecimal digits, as gateways look for them."""
    return f"{_digest(session)}{branch % 256:02x}{position % 16**6:06x}"


def _digest(session: str) -> str:
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:16]


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


def _texts(
    session: str, reply: RenderView, plan: MessagePlan, messages: Sequence[Mapping[str, Any]]
) -> dict[int, tuple[str, str]]:
    """By position, the id of each result taken out, and the text in its place."""
    found: dict[int, tuple[str, str]] = {}
    excerpts = {
        item["position"]: item["text"]
        for item in reply["replaced"]
        if not plan.shows_whole(item["position"])
    }
    for position in sorted([*plan.hidden(), *excerpts]):
        id = identify(session, reply["branch"], position)
        excerpt = excerpts.get(position)
        text = (
            _RECALL.sub(f"retrieve hash={id} for all of it", excerpt, count=1)
            if excerpt
            else f"[A result is left out here; retrieve hash={id} for it]"
        )
        if len(text) < len(plain_text(messages[position].get("content"))):
            found[position] = (id, text)
    return found


def _with_calls(messages: list[Any]) -> tuple[set[int], list[Any]]:
    """The messages, a call put before each result that has none, and where these were put.

    Guardrails hold assistant messages back: what they send is results alone.
    """
    called = {
        str(call.get("id"))
        for message in messages
        if isinstance(message, Mapping) and isinstance(message.get("tool_calls"), list)
        for call in message["tool_calls"]
        if isinstance(call, Mapping)
    }
    added: set[int] = set()
    whole: list[Any] = []
    for message in messages:
        is_result = isinstance(message, Mapping) and message.get("role") == "tool"
        if is_result and str(message.get("tool_call_id")) not in called:
            function = {"name": str(message.get("name") or "tool"), "arguments": ""}
            call = {"id": message.get("tool_call_id"), "type": "function", "function": function}
            added.add(len(whole))
            whole.append({"role": "assistant", "content": None, "tool_calls": [call]})
        whole.append(message)
    return added, whole


def _has_blocks(messages: list[Any]) -> bool:
    return any(
        isinstance(block, Mapping) and block.get("type") in _BLOCKS
        for message in messages
        if isinstance(message, Mapping) and isinstance(message.get("content"), list)
        for block in message["content"]
    )
