"""Renders a request's history within its budget, so that no failure stops a model call.

`fit` of either client asks the service for a plan and applies it to the original items. If the
service fails or is late, the original request is sent; such failures are counted and logged.
A history that the provider stores is not rendered. Long because applying a plan, its warnings and
its failures belong together.
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
    Unauthorized,
    Unreachable,
)
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.replies import PlannedMessage, RenderView
from contextrender_bridge.dialects import DIALECTS, OBSERVATIONS, Dialect, MessagePlan, Transcript
from contextrender_bridge.dialects.observations import has_observations

Body = Mapping[str, Any]

_RECALL = re.compile(r"; recall result \d+ for all of it(?=:?\]\n)")
BYTES_PER_TOKEN = 4
"""An estimate that only decides about a warning."""
_CALL_AGAIN = "; call its tool again for all of it"
"""The end of the line above an excerpt or a summary (`engine.plan.excerpt_text`)."""

_PROVIDER_HISTORIES = (
    *("previous_response_id", "previous_interaction_id", "previous_message_id"),
    *("conversation", "conversation_id", "context_id", "thread", "cached_content", "cachedContent"),
)
"""Request fields that name a history stored by the provider."""
_HOLDERS = ("extra_body", "google")
"""Request fields whose object may have such a field: `extra_body.google.cached_content`."""

REFERENCES = "references"
"""The reason for sending a history in full that refers to items which the provider stores."""
ABOVE_BUDGET = ("unpaired_results", "unreadable_messages", REFERENCES)
"""Failures of requests that were rendered but are still above their budget."""

log = logging.getLogger("contextrender")


@dataclass(frozen=True)
class RenderedRequest:
    """The request to send to the model.

    `changed` is true if `body` differs from the original request. `reply` is the service's reply to
    `render`, if there is one. `failure` is the reason why the request was not rendered or is above
    its budget. `results_beyond_budget` counts the shown results that the service did not count.
    """

    body: Body
    changed: bool = False
    reply: RenderView | None = None
    failure: str = ""
    transcript: Transcript | None = field(default=None, repr=False)
    plan: MessagePlan | None = field(default=None, repr=False)
    results_beyond_budget: int = 0

    @property
    def messages(self) -> Any:
        """The messages of `body`, in dialects that have them."""
        return self.body.get("messages")


class Failures:
    """Counts of requests that were sent unchanged, by reason; safe between threads."""

    def __init__(self) -> None:
        """Create empty counts. `on_failure` is called with the reason of every failure."""
        self.on_failure: Callable[[str], None] = lambda reason: None
        self._counts: Counter[str] = Counter()
        self._reported: set[str] = set()
        self._lock = threading.Lock()

    def add(self, reason: str, remedy: str = "") -> None:
        """Count a failure, log it, and call `on_failure`.

        With a `remedy` (a sentence for the user), log it only once until a request succeeds.
        """
        with self._lock:
            self._counts[reason] += 1
            is_repeated = bool(remedy) and reason in self._reported
            self._reported.add(reason)
        self.on_failure(reason)
        if not is_repeated:
            result = "above its budget" if reason in ABOVE_BUDGET else "unchanged"
            log.warning("history sent %s (%s)%s", result, reason, remedy and f": {remedy}")

    def note_success(self) -> None:
        """Note that a request succeeded, so that the next failure is logged again."""
        with self._lock:
            self._reported.clear()

    def counts(self) -> dict[str, int]:
        """Return the counts by reason."""
        with self._lock:
            return dict(self._counts)


def dialect_of(name: str, body: Body) -> Dialect:
    """Return the request format `name`.

    For a chat request that has results as text, without any tools, return "observations" instead.
    """
    if name == "chat" and not _uses_tools(body) and has_observations(body):
        return OBSERVATIONS
    return DIALECTS[name]


def _uses_tools(body: Body) -> bool:
    """Return whether a chat request has tools, or tool calls or results in its messages.

    Also return True if the messages cannot be read, so that their texts are not read as results.
    """
    items = body.get("messages")
    if body.get("tools") or body.get("functions") or not isinstance(items, list):
        return True
    for item in items:
        if not isinstance(item, Mapping) or item.get("tool_calls") or item.get("role") == "tool":
            return True
    return False


def is_kept_by_provider(body: Mapping[str, Any]) -> bool:
    """Return whether the provider stores the history, or begins to store it with this request.

    Such a request must not be rendered. If it is the first one, the provider would store the
    shortened history. Each later one has only new messages, and so no history to render.
    """
    # The field that names the history may be in the body or in one of its objects.
    inner = (body[name] for name in _HOLDERS if isinstance(body.get(name), Mapping))
    return any(body.get(name) for name in _PROVIDER_HISTORIES) or any(
        map(is_kept_by_provider, inner)
    )


def has_references(body: Mapping[str, Any]) -> bool:
    """Return whether a Responses request has references to items that the provider stores."""
    items = body.get("input")
    return isinstance(items, list) and any(map(_is_reference, items))


def _is_reference(item: Any) -> bool:
    """Return whether an item is a reference to a stored item.

    The API lets a reference omit its type. Then it has an `id`, but neither role nor content.
    """
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (
        kind is None and bool(item.get("id")) and not item.keys() & {"role", "content"}
    )


def apply_plan(
    body: Body,
    transcript: Transcript,
    reply: RenderView,
    bypass: Collection[str] = (),
    *,
    recalls: bool = False,
) -> RenderedRequest:
    """Apply the plan of a render reply to a request, and return the rendered request.

    Results of the tools `bypass` (names or globs) are always complete. If `recalls` is false and
    the request declares no recall tool, excerpts say to call the result's own tool again.

    Results without a call are always sent, because the provider may hold their call, which would
    then lack its result. The service counts neither these results nor those of `bypass` that are
    added here. Both are counted in `results_beyond_budget`.
    """
    # Correct the plan: no hints to a recall tool that the model lacks, and complete results of the
    # tools in `bypass`.
    planned: Sequence[PlannedMessage] = reply["plan"] or ()
    substitutes = reply["substitutes"]
    if not recalls and not has_recall_tool(body):
        planned = _without_recalls(planned, {item["position"] for item in substitutes})
    plan = transcript.plan(planned, reply.get("breakpoints") or ())
    bypassing = plan.results_of(bypass) if bypass else ()
    extra_results = [result for result in bypassing if not plan.shows_complete(result)]
    for result in extra_results:
        plan.show_result(result)
    # Keep the request itself if the plan changes nothing, or if it must not be changed.
    changes = (substitutes, reply["omitted"], reply["dropped_turns"], reply["truncated_messages"])
    has_changes = any(changes)
    if has_changes and has_references(body):
        # Items that refer to others of a stored answer are valid only together.
        return RenderedRequest(body, False, reply, REFERENCES, transcript, plan)
    new_body = transcript.apply(plan) if has_changes else body
    changed = new_body is not body and new_body != body
    unpaired_count = len(plan.shown_unpaired_results()) if changed else 0
    return RenderedRequest(
        new_body,
        changed,
        reply,
        _reason_above_budget(transcript, plan, reply, changed=changed),
        transcript,
        plan,
        results_beyond_budget=len(extra_results) + unpaired_count,
    )


def _reason_above_budget(
    transcript: Transcript, plan: MessagePlan, reply: RenderView, *, changed: bool
) -> str:
    """Return why a rendered request exceeds its budget; empty if it does not.

    `changed` is true if the rendered request differs from the original one. The reason is one of
    `ABOVE_BUDGET`: results without a call cannot be omitted, and the service does not count items
    that could not be read.
    """
    if not changed and plan.omitted_results() + plan.shown_unpaired_results():
        # The request is unchanged, although the plan omits results, or does not select results
        # without a call. So these results could not be omitted.
        return "unpaired_results"
    unread_bytes = sum(len(wire.dumps(item)) for item in transcript.unread_items())
    unread_tokens = unread_bytes // BYTES_PER_TOKEN
    if not unread_tokens:
        return ""
    prompt_tokens = reply["tokens_after"] if changed else reply["tokens_before"]
    return "unreadable_messages" if prompt_tokens + unread_tokens > reply["budget"] else ""


def write_prompt(
    messages: Sequence[Json],
    planned: Sequence[PlannedMessage],
    substitutes: Collection[int],
    recalls: bool,
) -> list[Json]:
    """Return the chat messages that a plan shows of a history.

    `messages` is the history, and `planned` the rows of the plan. `substitutes` are the positions
    of the results that the plan shows with another text. `recalls` is true if the model has a tool
    that recalls results; otherwise these texts say to call the result's own tool again.
    """
    if not recalls:
        planned = _without_recalls(planned, substitutes)
    transcript = DIALECTS["chat"].read({"messages": list(messages)})
    return list(transcript.apply(transcript.plan(planned))["messages"])


def _without_recalls(
    planned: Sequence[PlannedMessage], substitutes: Collection[int]
) -> list[PlannedMessage]:
    """Return the plan's rows, with texts that do not name the recall tool.

    Only texts of the results at the positions `substitutes` name it. They then say to call the
    result's own tool again.
    """
    messages = []
    for message in planned:
        if message["text"] and message["message"] in substitutes:
            message = {**message, "text": _RECALL.sub(_CALL_AGAIN, message["text"])}
        messages.append(message)
    return messages


def has_recall_tool(body: Body) -> bool:
    """Return whether a request of any dialect offers the model a tool that recalls results."""
    tools = body.get("tools")
    declarations = tools if isinstance(tools, (list, tuple)) else ()
    return any("recall" in tool_name(tool).lower() for tool in declarations)


def tool_name(tool: Any) -> str:
    """Return the name in a tool's declaration, in any request format.

    For a provider's own tool without a name, return the type. Return "" if there is neither.
    """
    # The chat format has the declaration under `function`, the others at the top.
    declaration = (tool.get("function") or tool) if isinstance(tool, Mapping) else None
    if not isinstance(declaration, Mapping):
        return ""
    name = declaration.get("name") or declaration.get("type")
    return name if isinstance(name, str) else ""


def reason_of(failure: BaseException) -> str:
    """Return a short name of a failure, which never has contents of messages.

    It is the error's code, "late" for any exceeded time limit, or the name of the error's class.
    """
    if isinstance(failure, ContextRenderError):
        return failure.code
    if type(failure).__name__ == "TimeoutError":  # a caller's own deadline, asyncio's or another
        return "late"
    return type(failure).__name__


def remedy_of(failure: BaseException) -> str:
    """Return a sentence on how to mend a service that is missing or refuses the token.

    Return an empty text for any other failure.
    """
    if isinstance(failure, (NoCredentials, Unauthorized)):
        return failure.message
    # With the code `late`, a service is running, but it did not answer in time.
    if isinstance(failure, Unreachable) and failure.code == Unreachable.code:
        return f"{failure.message} Start one: `contextrender serve`."
    return ""


def is_callers_mistake(failure: Exception) -> bool:
    """Return whether a failure is an invalid setting of the caller.

    Every later call with this setting would fail, too, so it is raised instead of failing open.
    """
    return isinstance(failure, InvalidRequest) and bool(failure.details.get("setting"))
