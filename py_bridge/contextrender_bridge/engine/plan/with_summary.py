"""What a model is shown when a summary replaces the beginning of its history.

The summary takes the place of a tool result that it covers, whose call stays: that is where a
provider expects text from outside, in a role that all of them take at any point of a history. Where
no covered result has a call, it takes the place of an earlier user message (docs/policies.md).
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
    substitute,
)
from contextrender_bridge.engine.plan.selection import Selection, Substitute, TextSelection
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD

CALL_SHARE: Final = 0.1
"""The share of the budget up to which the call that stays with a summary may be any."""

HEADER_TOKENS: Final = 32


@dataclass(frozen=True, slots=True)
class Method:
    """One way to use summaries, of at most `share` of the budget.

    `text_of(view, covered)` is the text that stays beside a summary of the first `covered`
    messages, None where it cannot; `boundary(view)` how much of the history to cover next.
    """

    name: str
    share: float
    text_of: Callable[[PolicyInput, int], TextSelection | None]
    boundary: Callable[[PolicyInput], int]
    guided: bool = False


def select_with_summary(
    view: PolicyInput, method: Method, otherwise: Callable[[PolicyInput], Selection]
) -> Selection:
    """The last summary and what came after it, or a new summary when that exceeds the budget.

    Where no new one is to be had: the last one with the newest results that fit, else `otherwise`.
    """
    summaries = view.summaries
    if summaries is None:
        raise InvalidRequest(f"policy {method.name} needs a model: set CONTEXTRENDER_MODEL")
    limit = int(method.share * view.budget) - HEADER_TOKENS
    summary_method = summaries.method(method.name, limit, guided=method.guided)
    known = summaries.latest(summary_method, view.history)
    if known and (plan := _beside(view, method, known)):
        return plan
    covered = method.boundary(view)
    if covered > (known.covered if known else 0):
        made = summaries.extend(summary_method, view.history, known, covered, view.originals)
        if made and (plan := _beside(view, method, made)):
            return plan
    return (known and _beside(view, method, known, whole=False)) or otherwise(view)


def call_reserve(view: PolicyInput) -> int:
    """Tokens to leave for the call that stays with a summary."""
    return int(CALL_SHARE * view.budget)


def _beside(
    view: PolicyInput, method: Method, summary: Summary, *, whole: bool = True
) -> Selection | None:
    """The plan with that summary and all that came after it, or, not `whole`, what fits of it.

    None where that exceeds the budget.
    """
    retained = method.text_of(view, summary.covered)
    if retained is None:
        return None
    placed = _placed(view, retained, summary)
    if placed is None:
        return None
    free = view.budget - view.tokens_of(placed.retained) - placed.cost
    first = bisect_left(view.history.results.message, summary.covered)
    taken: list[int] = []
    for result in range(len(view.costs) - 1, first - 1, -1):
        if view.history.results.call_message[result] < summary.covered:
            continue
        if view.costs[result] <= free:
            taken.append(result)
            free -= int(view.costs[result])
        elif whole:
            return None
    return None if free < 0 else placed.selection(len(view.history), taken, first)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A summary in the place of `result`, at `cost` tokens with its call, or of a user message."""

    retained: TextSelection
    result: int = -1
    cost: int = 0
    text: Substitute | None = None

    def selection(self, messages: int, taken: list[int], covered: int) -> Selection:
        """Return these results, newest first, beside a summary of the first `covered` results."""
        reasons = dict.fromkeys(range(covered), "the summary covers it")
        if self.text is None:
            return Selection(messages, self.retained, tuple(taken), reasons=reasons)
        reasons[self.result] = "the summary of everything up to here stands in its place"
        return Selection(
            messages,
            self.retained,
            tuple(taken),
            {self.result: self.text},
            order=(self.result, *taken),
            reasons=reasons,
        )


def _placed(view: PolicyInput, retained: TextSelection, summary: Summary) -> _Placed | None:
    """The summary where it stands: with the latest covered call that is small, else the smallest.

    The text of that call's message leaves, unless it is retained.
    """
    results, counter = view.history.results, view.counter
    covered = bisect_left(results.message, summary.covered)
    asked = [r for r in reversed(range(covered)) if results.call_event[r] != NO_CALL]
    text = _header(summary, covered) + summary.text
    if not asked:
        return _in_user_message(view, retained, summary, text)
    sizes, most = results.call_tokens, call_reserve(view)
    place = next((r for r in asked if sizes[r] <= most), min(asked, key=lambda r: sizes[r]))
    caller = results.call_message[place]
    if caller in retained.dropped:
        retained = replace(
            retained,
            dropped=tuple(place for place in retained.dropped if place != caller),
            cut={**retained.cut, caller: NO_SUBSTITUTE},
        )
    made = Substitute(text, counter.message({"content": text}), "summary")
    return _Placed(retained, place, results.call_tokens[place] + made.tokens, made)


def _in_user_message(
    view: PolicyInput, retained: TextSelection, summary: Summary, text: str
) -> _Placed | None:
    """The summary in the place of the latest covered user message but the first, if there is one.

    In the first one it stands below what is shown of it.
    """
    history, counter = view.history, view.counter
    earlier = [
        position
        for position in range(summary.covered)
        if history.roles[position] == "user" and position not in view.unbudgeted
    ]
    if not earlier:
        return None
    place = earlier[-1]
    if place not in retained.dropped:
        own = retained.cut.get(place)
        text = f"{view.text_of(place) if own is None else own.text}\n\n{text}"
    return _Placed(
        replace(
            retained,
            dropped=tuple(message for message in retained.dropped if message != place),
            cut={**retained.cut, place: substitute(text, counter)},
        )
    )


def _header(summary: Summary, results: int) -> str:
    return (
        f"[Summary made by a model of the {summary.covered} messages up to here, "
        f"{results} tool results among them; recall gives any of them complete]\n"
    )


TASK_SHARE: Final = 0.2
"""The share of the budget that the first user message may have beside a summary."""

TEXT_SHARE: Final = 0.4
"""The share of the budget that text may have where it stays although it is summarised."""


def text_after(view: PolicyInput, covered: int) -> TextSelection:
    """The first user message, shortened to its share, and all text after what is covered."""
    history, sizes = view.history, view.history.text_tokens
    task, room = history.first_user, int(TASK_SHARE * view.budget)
    dropped = [p for p in range(covered) if p != task and history.result_at(p) < 0]
    cut: dict[int, Substitute] = {}
    if 0 <= task < covered and task not in view.unbudgeted and sizes[task] > room:
        text = excerpt(view.text_of(task), room - MESSAGE_OVERHEAD, view.counter)
        cut[task] = substitute(text, view.counter)
    return TextSelection(tuple(p for p in dropped if p not in view.unbudgeted), cut)


def text_within_share(view: PolicyInput) -> TextSelection:
    """All text, by the method's own rule under its share of the budget."""
    return retain_text(view.history, int(TEXT_SHARE * view.budget), view.text_of, view.counter)


def text_of_all(view: PolicyInput, covered: int) -> TextSelection | None:
    """`text_within_share`, unless text leaves that is not covered."""
    kept = text_within_share(view)
    return kept if dropped_until(view, kept) <= covered else None


def dropped_until(view: PolicyInput, text: TextSelection) -> int:
    """Return the position behind the last message, result or not, of the turns dropped whole."""
    staying = {*view.unbudgeted, view.history.first_user}
    turns = enumerate(view.history.turns, 1)
    return max((p for p, turn in turns if turn in text.turns and p - 1 not in staying), default=0)
