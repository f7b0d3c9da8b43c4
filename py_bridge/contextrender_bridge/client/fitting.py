"""A request's history made to fit its budget, or left as it was: nothing here fails a model call.

`fit` of either client reads the request in its dialect, asks the service for a plan, and applies
it to the original items. When the service is down, late or wrong, the original goes through; a
counter and one line in the log say so, never with contents.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import (
    ContextRenderError,
    InvalidRequest,
    NoCredentials,
    Unreachable,
)
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.replies import PlannedMessage, RenderView
from contextrender_bridge.dialects import DIALECTS, OBSERVATIONS, Dialect, MessagePlan, Transcript
from contextrender_bridge.dialects.observations import has_observations

Body = Mapping[str, Any]

_RECALL = re.compile(r"; recall result \d+ for all of it(?=:?\]\n)")
BYTES_A_TOKEN = 4
"""An estimate, for a warning alone."""
_AGAIN = "; call its tool again for all of it"
"""What the line above an excerpt or a compaction says (`engine.plan.excerpt_text`)."""

ABOVE_BUDGET = ("unpaired_results", "unreadable_messages")
"""Failures of requests that were rendered, and are above their budget all the same."""
_ABOVE_BUDGET = "history sent above its budget"

log = logging.getLogger("contextrender")


@dataclass(frozen=True)
class RenderedRequest:
    """What to send to the model. `failure` says why it is the original, where that was not meant.

    `reply` is the service's answer to `render`, `changed` whether `body` differs from the original.
    `beyond`: how many results are there on top of what the service counted.
    """

    body: Body
    changed: bool = False
    reply: RenderView | None = None
    failure: str = ""
    transcript: Transcript | None = field(default=None, repr=False)
    plan: MessagePlan | None = field(default=None, repr=False)
    beyond: int = 0

    @property
    def messages(self) -> Any:
        """The messages of `body`, for dialects that have them."""
        return self.body.get("messages")


class Failures:
    """How often the original went through, by reason; safe between threads."""

    def __init__(self) -> None:
        """Starts at none; `heard` is told every reason as well."""
        self.heard: Callable[[str], None] = lambda reason: None
        self._counts: Counter[str] = Counter()
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def add(self, reason: str, remedy: str = "") -> None:
        """Counts one and logs it; with a `remedy` only the first of a row."""
        with self._lock:
            self._counts[reason] += 1
            again = bool(remedy) and reason in self._said
            self._said.add(reason)
        self.heard(reason)
        if not again:
            text = _ABOVE_BUDGET if reason in ABOVE_BUDGET else "history sent unchanged"
            log.warning("%s (%s)%s", text, reason, remedy and f": {remedy}")

    def end(self) -> None:
        """A history was fitted: what fails after it is said again."""
        with self._lock:
            self._said.clear()

    def counts(self) -> dict[str, int]:
        """The counts by reason."""
        with self._lock:
            return dict(self._counts)


def dialect_of(name: str, body: Body) -> Dialect:
    """The dialect of that name; of chat requests also the one with results as text."""
    if name == "chat" and not _uses_tools(body) and has_observations(body):
        return OBSERVATIONS
    return DIALECTS[name]


def _uses_tools(body: Body) -> bool:
    """Whether a chat request has tools, or calls of some; else its messages can be looked at."""
    items = body.get("messages")
    if body.get("tools") or body.get("functions") or not isinstance(items, list):
        return True
    for item in items:
        if not isinstance(item, Mapping) or item.get("tool_calls") or item.get("role") == "tool":
            return True
    return False


def fitted(
    body: Body,
    transcript: Transcript,
    reply: RenderView,
    bypass: Collection[str] = (),
    *,
    recalls: bool = False,
) -> RenderedRequest:
    """Return what a render reply with a plan makes of a request.

    Results of the tools `bypass` (names, globs) are complete in any case. If a summary of the
    history has replaced one of them, the whole request stays.
    Unless the model `recalls`, by a tool, excerpts say to call the result's own tool again.
    """
    shown, breakpoints = reply["plan"] or (), reply.get("breakpoints") or ()
    if not recalls and not has_recall_tool(body):
        cut = {replaced["position"] for replaced in reply["substitutes"]}
        shown = [_without_recall(item) if item["message"] in cut else item for item in shown]
    plan = transcript.plan(shown, breakpoints)
    summaries = {shown["position"] for shown in reply["substitutes"] if shown["kind"] == "summary"}
    beyond = [result for result in plan.results_of(bypass) if not plan.shows_whole(result)]
    if summaries.intersection(beyond):
        return RenderedRequest(body, failure="bypass_tools", transcript=transcript)
    for result in beyond:
        plan.show_result(result)
    left = body
    if any(
        reply[name] for name in ("omitted", "substitutes", "dropped_turns", "truncated_messages")
    ):
        left = transcript.apply(plan)
    changed = left is not body and left != body
    failure = _over_budget(transcript, plan, reply, changed=changed)
    count = len(beyond) + (len(plan.shown_strays()) if changed else 0)
    return RenderedRequest(left, changed, reply, failure, transcript, plan, count)


def _over_budget(
    transcript: Transcript, plan: MessagePlan, reply: RenderView, *, changed: bool
) -> str:
    """Return why a request is above its budget though it was rendered; empty if it is not."""
    if not changed and plan.hidden() + plan.shown_strays():
        return "unpaired_results"
    unread = sum(len(wire.dumps(item)) for item in transcript.unread_items()) // BYTES_A_TOKEN
    if not unread:
        return ""
    sent = reply["tokens_after" if changed else "tokens_before"]
    return "unreadable_messages" if sent + unread > reply["budget"] else ""


def write_prompt(
    messages: Sequence[Json],
    shown: Sequence[PlannedMessage],
    replaced: Collection[int],
    recalls: bool,
) -> list[Json]:
    """Return the messages that `fitted` makes of a chat request with this plan.

    `replaced` are the positions of results that another text replaces; `recalls`: the model has a
    tool that recalls results.
    """
    if not recalls:
        shown = [_without_recall(item) if item["message"] in replaced else item for item in shown]
    transcript = DIALECTS["chat"].read({"messages": list(messages)})
    written: list[Json] = transcript.apply(transcript.plan(shown))["messages"]
    return written


def _without_recall(shown: PlannedMessage) -> PlannedMessage:
    text = shown["text"]
    return {**shown, "text": _RECALL.sub(_AGAIN, text)} if text else shown


def has_recall_tool(body: Body) -> bool:
    """Whether a request of any dialect offers the model a tool that recalls results."""
    tools = body.get("tools")
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        if isinstance(tool, Mapping):
            function = tool.get("function")
            named = function if isinstance(function, Mapping) else tool
            if "recall" in str(named.get("name")).lower():
                return True
    return False


def reason_of(failure: BaseException) -> str:
    """A short name of what went wrong, without contents."""
    if isinstance(failure, ContextRenderError):
        return failure.code
    if type(failure).__name__ == "TimeoutError":  # a caller's own deadline, asyncio's or another
        return "late"
    return type(failure).__name__


def remedy_of(failure: BaseException) -> str:
    """What a person can do where no service is there; empty for other failures."""
    if isinstance(failure, NoCredentials):
        return failure.message
    if isinstance(failure, Unreachable) and failure.code == Unreachable.code:
        return f"{failure.message} Start one: `contextrender serve`."
    return ""


def is_callers_mistake(failure: Exception) -> bool:
    """Whether a budget, policy or parameter cannot be: no later call would go better."""
    return isinstance(failure, InvalidRequest) and bool(failure.details.get("setting"))


def name_of(messages: Sequence[Body], caller: str = "") -> str:
    """Names a session by how its history begins, where the runtime has no name.

    The same for every call of one history; `caller` keeps those of others apart.
    """
    return f"auto-{wire.digest_of(caller, _opening(messages))}"


def name_of_body(reader: Dialect, body: Mapping[str, Any]) -> str:
    """That of a body's history; most times the first items tell it."""
    items: Any = body.get(reader.key)
    for end, item in enumerate(items if isinstance(items, list) else [], 1):
        if isinstance(item, Mapping) and item.get("role") == "user":
            opening = reader.read({**body, reader.key: items[:end]}).messages
            if any(message["role"] == "user" for message in opening):
                return name_of(opening)
            break
    whole = reader.read(body).messages
    return name_of(whole) if whole else ""


def _opening(messages: Sequence[Body]) -> list[Body]:
    """The first messages, up to the first of the user."""
    for position, message in enumerate(messages):
        if message["role"] == "user":
            return list(messages[: position + 1])
    return list(messages[:1])
