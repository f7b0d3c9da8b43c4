"""Selections in which a history summary replaces the beginning of the history.

The summary is shown instead of a tool result that it covers, and the result's call stays. All
providers accept a tool result at any point of a history, and expect external text in it. If no
covered result has a call, the summary is shown instead of an earlier user message
(docs/policies.md).
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.models.summaries import Summary
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.retained_text import (
    NO_SUBSTITUTE,
    retain_text,
    to_substitute,
)
from contextrender_bridge.engine.plan.selection import Selection, Substitute, TextSelection
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD

CALL_SHARE: Final = 0.1
"""The share of the budget that the call of the summary may have. Above it, the smallest is used."""

HEADER_TOKENS: Final = 32


@dataclass(frozen=True, slots=True)
class Method:
    """A way to use history summaries, each of at most `share` of the budget.

    `text_of(view, covered)` returns the text selection beside a summary of the first `covered`
    messages, or None if there is none. `boundary(view)` returns how many messages the next summary
    has to cover. If it is `guided`, summaries follow the guideline.
    """

    name: str
    share: float
    text_of: Callable[[PolicyInput, int], TextSelection | None]
    boundary: Callable[[PolicyInput], int]
    guided: bool = False


def select_with_summary(
    view: PolicyInput, method: Method, otherwise: Callable[[PolicyInput], Selection]
) -> Selection:
    """Return a selection with the last summary and all messages after it.

    If that exceeds the budget, write a new summary. If there is no new one, return the last summary
    with the newest results that fit; without a summary, return the selection of `otherwise`.
    """
    summaries = view.summaries
    if summaries is None:
        raise InvalidRequest(f"policy {method.name} needs a model: set CONTEXTRENDER_MODEL")
    limit = int(method.share * view.budget) - HEADER_TOKENS
    summary_method = summaries.method(method.name, limit, guided=method.guided)
    last = summaries.latest(summary_method, view.history)
    if last and (selection := _select_beside(view, method, last)):
        return selection
    covered = method.boundary(view)
    if covered > (last.covered if last else 0):
        summary = summaries.extend(summary_method, view.history, last, covered, view.originals)
        if summary and (selection := _select_beside(view, method, summary)):
            return selection
    if last and (selection := _select_beside(view, method, last, needs_all=False)):
        return selection
    return otherwise(view)


def call_reserve(view: PolicyInput) -> int:
    """Return the tokens to reserve for the call of the summary."""
    return int(CALL_SHARE * view.budget)


def _select_beside(
    view: PolicyInput, method: Method, summary: Summary, *, needs_all: bool = True
) -> Selection | None:
    """Return a selection with the summary and the results after it, or None if that is too large.

    If it does not `needs_all`, the selection has the newest results that fit.
    """
    text = method.text_of(view, summary.covered)
    if text is None:
        return None
    placement = _place_summary(view, text, summary)
    if placement is None:
        return None
    remaining_tokens = view.budget - view.tokens_of(placement.text) - placement.cost
    first = bisect_left(view.history.results.message, summary.covered)
    selected: list[int] = []
    for result in range(len(view.costs) - 1, first - 1, -1):
        if view.history.results.call_message[result] < summary.covered:
            continue
        if view.costs[result] <= remaining_tokens:
            selected.append(result)
            remaining_tokens -= int(view.costs[result])
        elif needs_all:
            return None
    if remaining_tokens < 0:
        return None
    return placement.selection(len(view.history), selected, first)


@dataclass(frozen=True, slots=True)
class _Placement:
    """A summary in the prompt: instead of `result`, or else in a user message of `text`.

    `cost` is the tokens of the summary with the result's call.
    """

    text: TextSelection
    result: int = -1
    cost: int = 0
    summary: Substitute | None = None

    def selection(self, messages: int, results: list[int], covered: int) -> Selection:
        """Return these results, newest first, beside a summary of the first `covered` results."""
        reasons = dict.fromkeys(range(covered), "the summary covers it")
        if self.summary is None:
            return Selection(messages, self.text, tuple(results), reasons=reasons)
        reasons[self.result] = "the summary of everything up to here stands in its place"
        return Selection(
            messages,
            self.text,
            tuple(results),
            {self.result: self.summary},
            order=(self.result, *results),
            reasons=reasons,
        )


def _place_summary(view: PolicyInput, text: TextSelection, summary: Summary) -> _Placement | None:
    """Return the placement of a summary: instead of a covered result, or in a user message.

    It is the latest result with a small call, or else the one with the smallest call. If the text
    of the call's message was dropped, the message stays without text.
    """
    results, counter = view.history.results, view.counter
    covered = bisect_left(results.message, summary.covered)
    candidates = [r for r in reversed(range(covered)) if results.call_event[r] != NO_CALL]
    summary_text = _header(summary, covered) + summary.text
    if not candidates:
        return _place_in_user_message(view, text, summary, summary_text)
    sizes, limit = results.call_tokens, call_reserve(view)
    smallest = min(candidates, key=lambda r: sizes[r])
    host = next((r for r in candidates if sizes[r] <= limit), smallest)
    caller = results.call_message[host]
    if caller in text.dropped:
        text = replace(
            text,
            dropped=tuple(message for message in text.dropped if message != caller),
            cut={**text.cut, caller: NO_SUBSTITUTE},
        )
    substitute = Substitute(summary_text, counter.message({"content": summary_text}), "summary")
    return _Placement(text, host, sizes[host] + substitute.tokens, substitute)


def _place_in_user_message(
    view: PolicyInput, text: TextSelection, summary: Summary, summary_text: str
) -> _Placement | None:
    """Return the placement of a summary instead of the latest covered user message, if any.

    If that message is not dropped, because it is the first one, the summary is behind its text.
    """
    history, counter = view.history, view.counter
    earlier = [
        position
        for position in range(summary.covered)
        if history.roles[position] == "user" and position not in view.unbudgeted
    ]
    if not earlier:
        return None
    host = earlier[-1]
    if host not in text.dropped:
        cut = text.cut.get(host)
        summary_text = f"{cut.text if cut else view.text_of(host)}\n\n{summary_text}"
    return _Placement(
        replace(
            text,
            dropped=tuple(message for message in text.dropped if message != host),
            cut={**text.cut, host: to_substitute(summary_text, counter)},
        )
    )


def _header(summary: Summary, results: int) -> str:
    return (
        f"[Summary made by a model of the {summary.covered} messages up to here, "
        f"{results} tool results among them; recall gives any of them complete]\n"
    )


TASK_SHARE: Final = 0.2
"""The largest share of the budget for the first user message beside a summary."""

TEXT_SHARE: Final = 0.4
"""The largest share of the budget for text that is shown although the summary covers it."""


def text_after(view: PolicyInput, covered: int) -> TextSelection:
    """Return the first user message, cut to its share, and all text after the covered messages."""
    history, sizes = view.history, view.history.text_tokens
    task, limit = history.first_user, int(TASK_SHARE * view.budget)
    dropped = [p for p in range(covered) if p != task and history.result_at(p) < 0]
    cut: dict[int, Substitute] = {}
    if 0 <= task < covered and task not in view.unbudgeted and sizes[task] > limit:
        text = excerpt(view.text_of(task), limit - MESSAGE_OVERHEAD, view.counter)
        cut[task] = to_substitute(text, view.counter)
    return TextSelection(tuple(p for p in dropped if p not in view.unbudgeted), cut)


def text_within_share(view: PolicyInput) -> TextSelection:
    """Return all text, by the method's own rule under its share of the budget."""
    return retain_text(view.history, int(TEXT_SHARE * view.budget), view.text_of, view.counter)


def text_of_all(view: PolicyInput, covered: int) -> TextSelection | None:
    """Return `text_within_share`, or None if it drops text that the summary does not cover."""
    text = text_within_share(view)
    return text if dropped_until(view, text) <= covered else None


def dropped_until(view: PolicyInput, text: TextSelection) -> int:
    """Return the position after the last message of the dropped turns, results included."""
    retained = {*view.unbudgeted, view.history.first_user}
    turns = enumerate(view.history.turns, 1)
    return max((p for p, turn in turns if turn in text.turns and p - 1 not in retained), default=0)
