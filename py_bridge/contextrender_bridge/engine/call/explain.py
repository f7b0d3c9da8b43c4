"""The reasons why a rendering shows each result or not, and the uses behind its reuse score."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import fsum
from typing import Final

from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.result_page import LastRebuild
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.plan.selection import Selection

TOO_LARGE: Final = "larger than all that was free for results"
NO_ROOM: Final = "no room left after others were taken"
RESTORED: Final = "restored behind result {position}, as an answer needed it after it was dropped"
KEPT_FREE: Final = "it would have fitted: the policy left that room free"


@dataclass(slots=True, frozen=True)
class ResultDecision:
    """The display of a result in a prompt, and the reason for it.

    `display` is "complete", "excerpt", "compaction", "summary" or "omitted". `order` is the
    result's place among the selected ones, from 1. For a result that did not fit,
    `remaining_tokens` is the number of tokens that were left when it first no longer fitted, and
    `selected_count` the number of results that were selected before. If the policy gives a reason
    of its own, `remaining_tokens` is the number of tokens that the selection left unused.
    """

    display: str
    order: int | None
    reason: str
    remaining_tokens: int | None = None
    selected_count: int | None = None


@dataclass(frozen=True)
class ResultDecisions:
    """The decisions on the results of one rendering."""

    rendered: RenderedCall

    def of(self, result: int) -> ResultDecision:
        """Return the decision on a result, by number."""
        selection = self.rendered.selection
        order = self._orders.get(result)
        policy_reason = selection.reasons.get(result)
        if result in selection.excerpts:
            kind = selection.excerpts[result].kind
            limit = selection.limits.get(result, selection.excerpts[result].tokens)
            reason = policy_reason or f"larger than the budget, so {kind} of at most {limit} tokens"
            return ResultDecision(kind, order, reason)
        if order is not None:
            fits = self.rendered.view.fits and not selection.reasons
            reason = "the whole history fits" if fits else policy_reason or "selected"
            return ResultDecision("complete", order, reason)
        return self._omitted(result, policy_reason)

    def _omitted(self, result: int, policy_reason: str | None) -> ResultDecision:
        """Return the decision on a result that is not shown in its own place."""
        view = self.rendered.view
        if view.history.results.call_event[result] == NO_CALL:
            return ResultDecision("omitted", None, "no call asked for it")
        if not view.eligible[result] and view.history.results.turn[result] in self._dropped_turns:
            return ResultDecision(
                "omitted", None, "its whole turn left to make room for later text"
            )
        if result in self._host_of:
            position = view.history.results.message[self._host_of[result]]
            return ResultDecision("excerpt", None, RESTORED.format(position=position))
        if policy_reason:
            rank_note = self.rebuild.rank_note(result) if self.rebuild else ""
            return ResultDecision("omitted", None, policy_reason + rank_note, self._remaining[-1])
        cost = int(view.costs[result])
        count = bisect_left(self._remaining, True, key=lambda remaining: cost > remaining)
        if count == len(self._remaining):
            return ResultDecision("omitted", None, KEPT_FREE, self._remaining[-1], count - 1)
        reason = NO_ROOM if count else TOO_LARGE
        return ResultDecision("omitted", None, reason, self._remaining[count], count)

    @cached_property
    def rebuild(self) -> LastRebuild | None:
        """The last rebuild of the prompt, if the policy rebuilds prompts."""
        return LastRebuild(self.rendered) if self.rendered.selection.rebuilt else None

    @cached_property
    def _host_of(self) -> dict[int, int]:
        """The last result behind which each restored result is shown."""
        restored = self.rendered.selection.restored
        return {result: host for host, text in restored.items() for result in text.results}

    @cached_property
    def _dropped_turns(self) -> frozenset[int]:
        return frozenset(self.rendered.selection.text.turns)

    @cached_property
    def _orders(self) -> dict[int, int]:
        shown_order = self.rendered.selection.shown_order
        return {result: order for order, result in enumerate(shown_order, 1)}

    @cached_property
    def _remaining(self) -> Sequence[int]:
        """The tokens left for results after the first 0, 1, 2 and so on were selected."""
        selection, view = self.rendered.selection, self.rendered.view
        calls = view.history.results.call_tokens
        sizes = (
            calls[result] + selection.limits.get(result, selection.excerpts[result].tokens)
            if result in selection.excerpts
            else int(view.costs[result])
            for result in selection.shown_order
        )
        tokens_for_results = self.rendered.budget - self.rendered.text_tokens
        return list(accumulate(sizes, lambda left, size: left - size, initial=tokens_for_results))


@dataclass(slots=True, frozen=True)
class UseRow:
    """An operation that used the result. `values` maps each value to n, the results with it."""

    event: int
    position: int
    turn: int
    values: dict[str, int]


@dataclass(slots=True, frozen=True)
class ResultRow:
    """One result: its scores (None if the policy has none), its sizes and the decision on it."""

    position: int
    event: int
    turn: int
    age: int
    reuse: float
    relevance: float | None
    usefulness: float | None
    score: float | None
    tokens: int
    cost: int
    decision: ResultDecision
    pinned: bool
    uses: list[UseRow]


def explain_results(
    rendered: RenderedCall,
    numbers: Sequence[int] | None = None,
    decisions: Mapping[int, ResultDecision] | None = None,
) -> list[ResultRow]:
    """Return a row for each of these results (by number), or for every one in transcript order.

    If there are recorded `decisions`, the rows have these, and no scores of the last rebuild.
    Otherwise the decisions follow from the rendering.
    """
    view, scores = rendered.view, rendered.selection.scores
    history, results = view.history, view.history.results
    if numbers is None:
        numbers = range(len(results))
    uses = _use_rows(history, set(numbers))
    rendered_decisions, pins = ResultDecisions(rendered), view.pins
    rebuild, has_pins = rendered_decisions.rebuild if decisions is None else None, bool(pins)
    return [
        ResultRow(
            results.message[r],
            results.event[r],
            results.turn[r],
            int(view.ages[r]),
            _reuse(uses.get(r, ())),
            float(scores.relevance[r]) if scores and scores.relevance is not None else None,
            float(scores.usefulness[r]) if scores else None,
            float(scores.score[r]) if scores else rebuild.score(r) if rebuild else None,
            results.tokens[r],
            int(view.costs[r]),
            rendered_decisions.of(r) if decisions is None else decisions[r],
            has_pins and pins.names(history.names[results.event[r]], results.call_id[r]),
            uses.get(r, []),
        )
        for r in numbers
    ]


def _use_rows(history: History, numbers: Set[int]) -> dict[int, list[UseRow]]:
    """Return the uses of these results, by result."""
    uses = [use for use in history.reuse.uses if use.result in numbers]
    holders = history.reuse.holders([value for use in uses for value in use.values])
    rows: dict[int, list[UseRow]] = {}
    for use in uses:
        position = bisect_right(history.first_events, use.operation) - 1
        values = {value: holders[value] for value in use.values if value in holders}
        rows.setdefault(use.result, []).append(
            UseRow(use.operation, position, history.turns[position], values)
        )
    return rows


def _reuse(uses: Sequence[UseRow]) -> float:
    """Return c, the sum of 1/n over all matches, rounded as `ReuseIndex.scores` does."""
    matches = Counter(value for use in uses for value in use.values)
    holders = {value: n for use in uses for value, n in use.values.items()}
    return fsum(matches[value] / n for value, n in holders.items())


OTHERWISE: Final = "so it was when the call was made; today"
SENT_FULL: Final = "the whole history was sent; rendered,"


def with_recorded_displays(
    numbers: Sequence[int],
    rows: Sequence[ResultRow],
    recorded_selection: Selection,
    today: Selection,
    *,
    sent_full: bool,
) -> list[ResultRow]:
    """Return the rows of these results with the recorded display, if it differs from today's.

    If the call was `sent_full`, the reasons say what a rendering would have shown.
    """
    differing_results = recorded_selection.differing_results(today)
    because = SENT_FULL if sent_full else OTHERWISE
    return [
        _recorded_row(row, number, recorded_selection, because)
        if number in differing_results
        else row
        for number, row in zip(numbers, rows, strict=True)
    ]


def differing_sentence(count: int) -> str:
    """Return the warning for a call of which today's rules would show `count` results otherwise."""
    results = "1 result" if count == 1 else f"{count:,} results"
    return f"Today's rules would show {results} otherwise than when this call was made."


def _recorded_row(
    row: ResultRow, number: int, recorded_selection: Selection, because: str
) -> ResultRow:
    today = row.decision
    display = "complete" if number in recorded_selection.complete else "omitted"
    if number in recorded_selection.partial:
        display = "excerpt"
    reason = f"{because} it would be {today.display}: {today.reason}"
    return replace(row, decision=ResultDecision(display, None, reason))
