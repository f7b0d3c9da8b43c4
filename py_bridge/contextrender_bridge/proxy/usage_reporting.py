"""What is told of a call: to the agent by headers, and to the service what the reply that passes
through says of its usage.

It goes with the session's next call, in the same commit; by itself where none comes soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextvars import Context, copy_context
from typing import Any

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base import wire
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import RenderedRequest, reason_of
from contextrender_bridge.proxy.conversations import ProxiedCall
from contextrender_bridge.proxy.routing import first

SOON_SECONDS = 5.0
LONGEST_CLIENT = 40
REFERENCES = "references"
"""Why a history is sent in full: the provider has some of its items."""
BYTES_A_TOKEN = 4

log = logging.getLogger("contextrender")


def declared_by(call: ProxiedCall) -> dict[str, int]:
    """About the tokens of each tool's declaration in a request, by name."""
    tools = call.fit.body.get("tools")
    known = tools if isinstance(tools, list) else []
    return {name_of(tool): len(wire.dumps(tool)) // BYTES_A_TOKEN for tool in known}


def name_of(tool: Any) -> str:
    """A tool's name in any dialect; its type, where it is a provider's own without a name."""
    named = tool.get("function") or tool if isinstance(tool, dict) else {}
    told = named.get("name") or named.get("type") if isinstance(named, dict) else ""
    return told if isinstance(told, str) else ""


def added_by(declared: Mapping[str, int]) -> int:
    """The tokens of wrap's own tool among them, whatever an agent makes of its name."""
    return sum(tokens for name, tokens in declared.items() if "contextrender" in name)


def report(call: ProxiedCall, fit: RenderedRequest) -> Headers:
    """The reply headers that tell what was done, or for a history sent whole, what would have been.

    `fit` is what was sent on of the call.
    """
    conversation = call.conversation
    conversation.calls += 1
    conversation.failed += bool(fit.failure)
    found = [own_header("session", call.session)] if call.session else []
    if fit.failure:
        found += [
            own_header("fail-open", fit.failure),
            own_header("fail-open-count", f"{conversation.failed} of {conversation.calls}"),
        ]
    if call.asked.whole_for:
        found.append(own_header("full-history", call.asked.whole_for))
    if fit.reply is not None:
        found.append(own_header("omitted", len(fit.plan.omitted_results()) if fit.plan else 0))
        if kept := Counter(pinned["display"] for pinned in fit.reply.get("pinned", ())):
            found.append(own_header("pinned", ", ".join(f"{n} {how}" for how, n in kept.items())))
        if not fit.results_beyond_budget:
            is_full = call.asked.mode == "render" and not fit.changed
            is_full = is_full or call.asked.whole_for == REFERENCES
            found += [
                own_header("tokens-before", fit.reply["tokens_before"]),
                own_header(
                    "tokens-after", fit.reply["tokens_before" if is_full else "tokens_after"]
                ),
            ]
        if added := added_by(declared_by(call)):
            found.append(own_header("tokens-added", added))
    return found


def own_header(name: str, value: object) -> tuple[bytes, bytes]:
    """A reply header of ours."""
    text = str(value).encode("ascii", "backslashreplace").decode()
    return f"x-contextrender-{name}".encode(), text.encode()


def _usage_report(call: ProxiedCall, usage: Usage | None, delivery: str) -> dict[str, Any]:
    """Return the field `usage` of `render`, `sync` and `record_usage` for a call."""
    declared = declared_by(call)
    report: dict[str, Any] = {"messages": call.messages, "delivery": delivery}
    if declared:
        report["declared_tokens"] = declared
    if usage is None:
        return report
    return {
        **report,
        "model": usage.model,
        "uncached": usage.uncached,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cache_write_1h": usage.cache_write_1h,
        "output": usage.output,
        "added_tokens": added_by(declared),
    }


class UsageNotes:
    """Usage of the newest call of each history that is still to be reported."""

    def __init__(self, client: AsyncContextRender) -> None:
        """Nothing is."""
        self._client = client
        self._waiting: dict[int, tuple[ProxiedCall, Context]] = {}
        """By its history; with the context of its request, whose user it is told for."""
        self._telling: set[asyncio.Task[None]] = set()

    def add(self, call: ProxiedCall, usage: Usage | None, delivery: str) -> None:
        """A call has ended. A service that has not answered it is not asked to note it, too."""
        usage_report = _usage_report(call, usage, delivery)
        is_unknown = call.fit.failure and call.fit.reply is None
        if not call.session or not call.messages or is_unknown:
            return
        if before := self._waiting.get(id(call.conversation)):
            self._tell_now(*before)
        call.conversation.usage_report = usage_report
        self._waiting[id(call.conversation)] = call, copy_context()
        asyncio.get_running_loop().call_later(SOON_SECONDS, self._tell, call, usage_report)

    async def settle(self, seconds: float) -> None:
        """Tells what is left, and waits a while for it."""
        for call, context in list(self._waiting.values()):
            self._tell_now(call, context)
        if self._telling:
            await asyncio.wait(set(self._telling), timeout=seconds)

    def _tell_now(self, call: ProxiedCall, context: Context) -> None:
        if call.conversation.usage_report is not None:
            context.run(self._tell, call, call.conversation.usage_report)

    def _tell(self, call: ProxiedCall, usage_report: Mapping[str, Any]) -> None:
        """By itself, unless the next call has taken it along."""
        if self._waiting.get(id(call.conversation), (None,))[0] is call:
            del self._waiting[id(call.conversation)]
        if call.conversation.usage_report is not usage_report:
            return
        call.conversation.usage_report = None
        telling = asyncio.ensure_future(self._note(call, usage_report))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _note(self, call: ProxiedCall, usage_report: Mapping[str, Any]) -> None:
        fields = {
            "session": call.session,
            "branch": call.conversation.branch,
            "usage": dict(usage_report),
        }
        try:
            await self._client.call("record_usage", fields, call.asked.token)
        except Exception as failure:
            log.warning("a call's usage is not noted (%s)", reason_of(failure))


def client_of(headers: Headers) -> str:
    """A short name of the calling program, as it tells it."""
    name = first(headers, b"user-agent").partition("/")[0].strip()[:LONGEST_CLIENT]
    return name if name.isprintable() else ""
