"""Reports of a model call: reply headers for the agent, and the provider's usage for the service.

The usage is sent with the history's next call, or alone if none comes in `REPORT_DELAY_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextvars import Context, copy_context
from typing import Any

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base.usage import NO_REPLY, ProviderReply, Usage
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import REFERENCES, RenderedRequest, reason_of
from contextrender_bridge.client.replies import RenderView
from contextrender_bridge.proxy.histories import Conversation, ProxiedCall

REPORT_DELAY_SECONDS = 5.0

log = logging.getLogger("contextrender")


def added_by(declared: Mapping[str, int]) -> int:
    """Return the tokens of the tools that `wrap` adds to requests.

    `declared` maps each tool's name to its tokens. The added ones have "contextrender" in the name.
    """
    return sum(tokens for name, tokens in declared.items() if "contextrender" in name)


def report(call: ProxiedCall, fit: RenderedRequest) -> Headers:
    """Add a call to the counts of its conversation, and return the headers that describe the call.

    `fit` is the call's rendered request. The headers name the session, a failure, the reason for a
    full history, and the tokens. If the full history was sent, the tokens say what rendering would
    have sent.
    """
    # Add the call to the conversation's numbers of calls and of calls that failed open.
    conversation = call.conversation
    conversation.calls += 1
    conversation.failed_open += bool(fit.failure)
    # A call for a title names a session, too, but is not recorded in it.
    is_recorded = bool(call.messages or fit.failure)
    headers = [own_header("session", call.session)] if call.session and is_recorded else []
    if fit.failure:
        headers += [
            own_header("fail-open", fit.failure),
            own_header("fail-open-count", f"{conversation.failed_open} of {conversation.calls}"),
        ]
    if call.controls.full_reason:
        headers.append(own_header("full-history", call.controls.full_reason))
    if fit.reply is not None:
        headers += _rendering_headers(call, fit, fit.reply)
    return headers


def _rendering_headers(call: ProxiedCall, fit: RenderedRequest, reply: RenderView) -> Headers:
    """Return the headers that describe a rendering: omitted and pinned results, and tokens.

    The proxy may show results beyond the budget. The service does not count their tokens, so then
    leave out the headers with the tokens before and after.
    """
    # Report an unchanged request in two cases. Either rendering changed nothing, or the request
    # refers to items that the provider stores (`REFERENCES`), so it cannot be changed. In any other
    # case report what rendering did or, if the full history was sent, would have done.
    rendering_changed_nothing = call.controls.mode == "render" and not fit.changed
    is_unchanged = rendering_changed_nothing or call.controls.full_reason == REFERENCES
    omitted = fit.plan.omitted_results() if fit.plan and not is_unchanged else []
    headers = [own_header("omitted", len(omitted))]
    # Count the pinned results by how they are displayed, for example complete or as an excerpt.
    if displays := Counter(result["display"] for result in reply.get("pinned", ())):
        counts = ", ".join(f"{count} {display}" for display, count in displays.items())
        headers.append(own_header("pinned", counts))
    if not fit.results_beyond_budget:
        before = reply["tokens_before"]
        after = before if is_unchanged else reply["tokens_after"]
        headers += [own_header("tokens-before", before), own_header("tokens-after", after)]
    # Report the tokens of the tools that `wrap` added to the request.
    if added := added_by(call.declared_tokens):
        headers.append(own_header("tokens-added", added))
    return headers


def own_header(name: str, value: object) -> tuple[bytes, bytes]:
    """Return one of our own reply headers."""
    text = str(value).encode("ascii", "backslashreplace").decode()
    return f"x-contextrender-{name}".encode(), text.encode()


def _usage_report(
    call: ProxiedCall, usage: Usage | None, delivery: str, reply: ProviderReply
) -> dict[str, Any]:
    """Return a call's usage report: the field `usage` of `render`, `sync` and `record_usage`.

    It identifies the call by its number of messages. If `usage` is None, it has no token counts.
    """
    declared, model = call.declared_tokens, call.model
    report = {"messages": call.messages, "delivery": delivery, **reply.to_json()}
    if model is not None:
        report["requested_model"] = model
    if declared:
        report["declared_tokens"] = declared
    if usage is None:
        return report
    return report | usage.to_report() | {"added_tokens": added_by(declared)}


class UsageNotes:
    """The usage of each history's newest call, until it is reported to the service."""

    def __init__(self, client: AsyncContextRender) -> None:
        """Report through `client`."""
        self._client = client
        self._unreported: dict[int, tuple[ProxiedCall, Context]] = {}
        """The newest call of each history, with its request's context, which has the user."""
        self._reports: set[asyncio.Task[None]] = set()

    def add(
        self,
        call: ProxiedCall,
        usage: Usage | None,
        delivery: str,
        reply: ProviderReply = NO_REPLY,
    ) -> None:
        """Keep the usage of a call that has ended, and report it later.

        The history's next call takes the report along. If no call comes in `REPORT_DELAY_SECONDS`,
        send it alone. If an earlier call of the history is not reported yet, report that call now.
        `usage` is None if the provider's reply has none. Ignore a call that was not recorded.
        """
        has_failed = call.fit.failure and call.fit.reply is None
        if not call.session or not call.messages or has_failed:
            return
        if earlier := self._unreported.get(id(call.conversation)):
            self._report_now(*earlier)
        usage_report = _usage_report(call, usage, delivery, reply)
        call.conversation.usage_report = usage_report
        # The next request may report this call, but must do so as this request's user.
        self._unreported[id(call.conversation)] = call, copy_context()
        asyncio.get_running_loop().call_later(
            REPORT_DELAY_SECONDS, self._report, call, usage_report
        )

    async def settle(self, seconds: float) -> None:
        """Report the remaining usage, and wait at most `seconds` for the service."""
        for call, context in list(self._unreported.values()):
            self._report_now(call, context)
        if self._reports:
            await asyncio.wait(set(self._reports), timeout=seconds)

    def _report_now(self, call: ProxiedCall, context: Context) -> None:
        """Report a call's usage in the context of its request, unless it is reported already."""
        if call.conversation.usage_report is not None:
            context.run(self._report, call, call.conversation.usage_report)

    def _report(self, call: ProxiedCall, usage_report: Mapping[str, Any]) -> None:
        """Start to send a call's usage in a request of its own.

        Do nothing if the history's next call has taken the report along: the conversation's report
        is then no longer `usage_report`.
        """
        # The call no longer waits, unless a newer call of the history has taken its place.
        newest_call, _ = self._unreported.get(id(call.conversation), (None, None))
        if newest_call is call:
            del self._unreported[id(call.conversation)]
        if call.conversation.usage_report is not usage_report:
            return
        call.conversation.usage_report = None
        sending = self._send(
            call.session, call.conversation, usage_report, call.controls.token, call.later_render
        )
        task = asyncio.ensure_future(sending)
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _send(
        self,
        session: str,
        conversation: Conversation,
        usage_report: Mapping[str, Any],
        token: str | None,
        recording: asyncio.Task[Any] | None,
    ) -> None:
        """Send a call's usage to the service. Log a failure, because no caller waits for it.

        `recording` is the task that records the call, None if the call is recorded. Wait for it
        first, because the service ignores the usage of a call that it does not have.
        """
        if recording is not None:
            await asyncio.wait([recording])
            # The task's result has the whole history. Free it before the service is called, because
            # a busy service may answer late.
            del recording
        fields = {"session": session, "branch": conversation.branch, "usage": dict(usage_report)}
        try:
            await self._client.call("record_usage", fields, token)
        except Exception as failure:
            log.warning(
                "the usage of a call could not be reported to the service (%s)", reason_of(failure)
            )
