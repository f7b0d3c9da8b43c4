"""`POST /v1/compress` and `GET /v1/retrieve/{id}`, which compression guardrails of gateways call.

A gateway sends messages and gets the same number back; a line with an id replaces each omitted
result. The id is made from the session, branch and position, so it is valid as long as the session
is stored. Long because both endpoints share the names and last replies of sessions.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import InvalidRequest, NotFound, Unauthorized
from contextrender_bridge.base.setting_kinds import AUTO, LONGEST_NUMBER, SMALLEST_BUDGET
from contextrender_bridge.base.usage_reading import usage_of
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import RenderedRequest, reason_of
from contextrender_bridge.client.replies import RenderView
from contextrender_bridge.dialects import MessagePlan, Transcript
from contextrender_bridge.dialects.contents import plain_text
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.histories import Histories, ProxiedCall
from contextrender_bridge.proxy.request import Controls, Request, client_of
from contextrender_bridge.proxy.usage_reporting import UsageNotes

REMEMBERED = 4096
"""The number of sessions for which the name is remembered, and also for which the last reply is."""
MARK_TOKENS = 32
"""The estimated tokens of the line that replaces a result."""

SESSIONS_PER_PAGE = 100
_ID = re.compile(r"[0-9a-f]{24}")
_RECALL = re.compile(r"recall result \d+ for all of it")
"""The hint in an excerpt for agents with the recall tool, which gateways do not have."""
_BLOCKS = ("tool_use", "tool_result")


@dataclass(slots=True, frozen=True)
class LastReply:
    """A session's last reply: a hash of each of its messages, and its call."""

    message_hashes: list[int]
    call: ProxiedCall


class Compression:
    """The endpoints `compress` and `retrieve`."""

    def __init__(self, histories: Histories, notes: UsageNotes) -> None:
        """Call the service through `histories`, and report usage through `notes`."""
        self._histories, self._notes = histories, notes
        self._session_names: OrderedDict[tuple[str | None, str], str] = OrderedDict()
        """The name of each recent session, by the caller's token and the name's digest."""
        self._last_replies: OrderedDict[tuple[str | None, str], LastReply] = OrderedDict()
        """The last reply of each recent session, by the caller's token and the session's name."""

    async def compress(self, request: Request, body: Mapping[str, Any], controls: Controls) -> Json:
        """Answer a request to compress `messages`, or to record the `usage` of a `session`'s call.

        In the reply, `unchanged` is the number of messages with which both this reply and the
        session's previous reply begin. If the gateway sent them to the provider, they are in the
        provider's cache. If the messages are malformed, return them as they are. Raise
        InvalidRequest if `messages` is no list.
        """
        if "usage" in body and "messages" not in body:
            return self._report_usage(body, controls)
        messages = body.get("messages")
        if not isinstance(messages, list):
            raise InvalidRequest("Field 'messages' must be a list.")
        # A valid budget in the body replaces the one in the headers or the settings.
        budget = body.get("budget", body.get("token_budget"))
        limit = 10**LONGEST_NUMBER  # a number has at most `LONGEST_NUMBER` digits
        is_number = type(budget) is int and SMALLEST_BUDGET <= budget < limit
        if budget == AUTO or is_number:
            controls = replace(controls, budget=budget)
        try:
            reply, call = await self._compress(request, body, messages, controls)
            unchanged_count = self._remember_reply(controls.token, reply, call)
            return {**reply, "unchanged": unchanged_count}
        except (LookupError, TypeError, AttributeError, ValueError) as failure:
            # The provider will refuse the malformed messages with the best explanation.
            self._histories.failures.add(reason_of(failure))
            fields = _reply_fields(messages, 0, 0, [], "")
            return {**fields, "fail_open": "malformed", "unchanged": 0}

    def _remember_reply(self, token: str | None, reply: Json, call: ProxiedCall) -> int:
        """Remember a reply as its session's last one, and compare it with the previous one.

        Return the number of first messages that are equal in both replies. `call` is the reply's
        call, which a later report of its usage needs.
        """
        key = token, str(reply["session"])
        hashes = [hash(wire.dumps(message)) for message in reply["messages"]]
        previous = self._last_replies.pop(key, None)
        previous_hashes = previous.message_hashes if previous else []
        failure = call.fit.failure if call.fit.reply is None else ""
        # A usage report only needs to know whether rendering failed. So drop the messages.
        fit = RenderedRequest({}, failure=failure)
        self._last_replies[key] = LastReply(hashes, replace(call, fit=fit, later_render=None))
        while len(self._last_replies) > REMEMBERED:
            self._last_replies.popitem(last=False)
        pairs = zip(previous_hashes, hashes, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def _report_usage(self, body: Mapping[str, Any], controls: Controls) -> Json:
        """Report the provider's usage of the session's last call to the service.

        Raise InvalidRequest if `usage` is invalid, NotFound if no such call came through here.
        """
        session, model = str(body.get("session") or ""), str(body.get("model") or "")
        counts = body["usage"]
        usage = usage_of(model, counts) if isinstance(counts, Mapping) else None
        if usage is None:
            raise InvalidRequest("Field 'usage' must be a provider's usage.")
        last_reply = self._last_replies.get((controls.token, session))
        if last_reply is None:
            raise NotFound("No messages of this session came through here.")
        call = last_reply.call
        self._notes.add(call, usage, call.controls.delivery)
        return {"session": session, "recorded": True}

    async def _compress(
        self,
        request: Request,
        body: Mapping[str, Any],
        messages: list[Any],
        controls: Controls,
    ) -> tuple[Json, ProxiedCall]:
        """Render these messages, and return the reply to the gateway and the rendered call.

        If the call fails open or gets its full history, the reply has the original messages.
        """
        # Some gateways leave out the tool calls. Add a call before each result that has none,
        # because only results with a call can be rendered.
        is_anthropic = body.get("format") == "messages" or has_blocks(messages)
        added: set[int] = set()  # the positions of the messages with added calls
        completed = messages
        if not is_anthropic:
            added, completed = with_calls(messages)
        # The body may name the calling program, which is otherwise read from the user agent.
        if isinstance(client := body.get("client"), str):
            name = client.encode("ascii", "ignore").decode()
            request = replace(request, client=client_of({"user-agent": name}))
        dialect = "messages" if is_anthropic else "chat"
        completed_body = Body({**body, "messages": completed}, "messages")
        # The reply has ids of stored results, which any proxy must find from now on.
        call = await self._histories.fit(
            request, completed_body, dialect, controls, answer_before_commit=False
        )
        rendered = await call.rendered(self._histories.deadline)
        full_reason = call.controls.full_reason
        # Without a rendered history, reply with the original messages and the reason.
        plan, transcript = rendered.plan, rendered.transcript
        if full_reason or rendered.reply is None or plan is None or transcript is None:
            reply = _reply_fields(messages, 0, 0, [], call.session)
            if rendered.failure:
                reply["fail_open"] = rendered.failure
            if full_reason:
                reply["full_history"] = full_reason
            return reply, call
        # The reply's ids have only a digest of this name, and `retrieve` needs the name.
        self._remember_name(controls.token, call.session)
        # Replace the shortened results by their texts, and remove the added calls again. `texts`
        # maps the position of each shortened result to its id and its new text.
        texts = texts_for(call.session, rendered.reply, plan, transcript.messages)
        replaced = replace_results(transcript, {n: text for n, (_, text) in texts.items()})
        compressed = [message for n, message in enumerate(replaced) if n not in added]
        before = after = rendered.reply["tokens_before"]
        # `tokens_after` lacks the results that are shown beyond the budget: report no saving then.
        # It also lacks the lines with ids that replace results.
        if not rendered.results_beyond_budget:
            after = min(rendered.reply["tokens_after"] + MARK_TOKENS * len(texts), before)
        ids = [id for id, _ in texts.values()]
        return _reply_fields(compressed, before, after, ids, call.session), call

    async def retrieve(self, id: str, controls: Controls) -> Json:
        """Return the complete result with this id.

        Raise Unauthorized without a token, NotFound if there is no such result.
        """
        if not controls.has_user:
            raise Unauthorized("Send a token: `x-contextrender-token: TOKEN`.")
        token = controls.token
        # The id has a digest of the session's name, the branch, and the result's position.
        parts = read_id(id)
        if parts is None:
            raise NotFound("There is no such id.")
        digest, branch, position = parts
        # Find the session, and get the complete result from the service.
        session = await self._session_name(digest, token)
        reply = await self._histories.client.recall(
            session, results=[position], branch=branch, token=token
        )
        result = reply["results"][0]
        # The reply has the names that gateways expect.
        text = plain_text(result["message"].get("content"))
        return {
            "hash": id,
            "session": session,
            "position": position,
            "tool_name": result["name"],
            "arguments": result["arguments"],
            "original_content": text,
            "original_tokens": result["tokens"],
            "message": result["message"],
        }

    async def _session_name(self, digest: str, token: str | None) -> str:
        """Return the caller's session whose name has this digest.

        If the session is not remembered, list all sessions of the caller. Raise NotFound if none of
        them has the digest.
        """
        name = self._session_names.get((token, digest))
        if name is not None:
            return name
        # Compare the digest of each session's name, page by page.
        cursor: str | None = None
        while True:
            page = await self._histories.client.list_sessions(
                limit=SESSIONS_PER_PAGE, cursor=cursor, token=token
            )
            for session in page["sessions"]:
                if digest_of(session["session"]) == digest:
                    self._remember_name(token, session["session"])
                    return str(session["session"])
            cursor = page["next"]
            if cursor is None:
                raise NotFound("There is no such id.")

    def _remember_name(self, token: str | None, session: str) -> None:
        """Remember the name of a caller's session by its digest."""
        self._session_names[(token, digest_of(session))] = session
        while len(self._session_names) > REMEMBERED:
            self._session_names.popitem(last=False)


def _reply_fields(messages: Any, before: int, after: int, ids: list[str], session: str) -> Json:
    """Return the fields of a reply. Some of their names are those that gateways expect.

    `before` and `after` are the tokens of the original and of the compressed messages. `ids` are
    the ids of omitted or shortened results.
    """
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


def identify(session: str, branch: int, position: int) -> str:
    """Return a result's id of 24 hexadecimal digits, the format that gateways search for.

    The session's digest has 16 of these digits, the branch 2, and the result's position 6.
    """
    return f"{digest_of(session)}{branch % 256:02x}{position % 16**6:06x}"


def read_id(id: str) -> tuple[str, int, int] | None:
    """Return the session's digest, the branch and the position in an id; None if it is invalid."""
    if not _ID.fullmatch(id):
        return None
    return id[:16], int(id[16:18], 16), int(id[18:], 16)


def digest_of(session: str) -> str:
    """Return the part of an id that identifies the session."""
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:16]


def texts_for(
    session: str, reply: RenderView, plan: MessagePlan, messages: Sequence[Mapping[str, Any]]
) -> dict[int, tuple[str, str]]:
    """Return a dictionary that maps the position of each shortened result to its id and new text.

    The text is the excerpt of a result that is shown in part, or a line for an omitted result.
    Leave out results that are not longer than the text that would replace them.
    """
    texts: dict[int, tuple[str, str]] = {}
    # The substitutes in the render reply, without those of results that are complete after all.
    excerpts = {
        item["position"]: item["text"]
        for item in reply["substitutes"]
        if not plan.shows_complete(item["position"])
    }
    for position in sorted([*plan.omitted_results(), *excerpts]):
        id = identify(session, reply["branch"], position)
        if excerpt := excerpts.get(position):
            # The gateway has no recall tool, so name the id instead.
            text = _RECALL.sub(f"retrieve hash={id} for all of it", excerpt, count=1)
        else:
            text = f"[A result is left out here; retrieve hash={id} for it]"
        if len(text) < len(plain_text(messages[position].get("content"))):
            texts[position] = (id, text)
    return texts


def replace_results(transcript: Transcript, texts: Mapping[int, str]) -> list[Any]:
    """Return all messages of a request, with new texts for some of its results.

    `texts` maps the position of a result to its new text.
    """
    plan = MessagePlan.full_history(transcript.messages)
    for position, text in texts.items():
        plan.replace(position, text)
    return list(transcript.apply(plan)["messages"])


def with_calls(messages: list[Any]) -> tuple[set[int], list[Any]]:
    """Add a message with a call before each result whose call is missing.

    Return the positions of the added messages in the new list, and the new list of all messages.
    Some guardrails send results without the assistant messages that called the tools.
    """
    call_ids = _call_ids(messages)
    added: set[int] = set()
    completed: list[Any] = []
    for message in messages:
        is_result = isinstance(message, Mapping) and message.get("role") == "tool"
        if is_result and str(message.get("tool_call_id")) not in call_ids:
            function = {"name": str(message.get("name") or "tool"), "arguments": ""}
            call = {"id": message.get("tool_call_id"), "type": "function", "function": function}
            added.add(len(completed))
            completed.append({"role": "assistant", "content": None, "tool_calls": [call]})
        completed.append(message)
    return added, completed


def _call_ids(messages: list[Any]) -> set[str]:
    """Return the ids of the messages' tool calls. Skip malformed messages and calls."""
    call_ids: set[str] = set()
    for message in messages:
        calls = message.get("tool_calls") if isinstance(message, Mapping) else None
        if isinstance(calls, list):
            call_ids.update(str(call.get("id")) for call in calls if isinstance(call, Mapping))
    return call_ids


def has_blocks(messages: list[Any]) -> bool:
    """Return whether messages have `tool_use` or `tool_result` blocks of Anthropic's API."""
    return any(
        isinstance(block, Mapping) and block.get("type") in _BLOCKS
        for message in messages
        if isinstance(message, Mapping) and isinstance(message.get("content"), list)
        for block in message["content"]
    )
