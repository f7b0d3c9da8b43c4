"""Why each result was shown or not in one rendering, and the uses behind its reuse score."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import fsum
from typing import Final

from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.result_page import LastRebuild
from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.plan.selection import Selection

TOO_LARGE: Final = "larger than all that was free for results"
NO_ROOM: Final = "no room left after others were taken"
BACK: Final = "restored behind result {position}, as an answer needed it after it was dropped"
KEPT_FREE: Final = "it would have fitted: the policy left that room free"


@dataclass(slots=True, frozen=True)
class ResultDecision:
    """`shown` is "complete", "excerpt", "compaction", "summary" or "omitted", `reason` says why.

    `order` is its place among those taken. Of a result that found no room, `left` are the tokens
    that were left when it first no longer fitted, and `after` how many had been taken by then:
    those of order 1 to `after`. Where a policy has a reason of its own, `left` is what was left in
    the end.
    """

    shown: str
    order: int | None
    reason: str
    left: int | None = None
    after: int | None = None


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on the results of one rendering."""

    rendered: RenderedCall

    def of(self, result: int) -> ResultDecision:
        """The verdict on a result, by number."""
        plan = self.rendered.selection
        order = self._places.get(result)
        own_reason = plan.reasons.get(result)
        if result in plan.excerpts:
            kind = plan.excerpts[result].kind
            limit = plan.limits.get(result, plan.excerpts[result].tokens)
            reason = own_reason or f"larger than the budget, so {kind} of at most {limit} tokens"
            return ResultDecision(kind, order, reason)
        if order is not None:
            fits = self.rendered.view.fits and not plan.reasons
            reason = "the whole history fits" if fits else own_reason or "selected"
            return ResultDecision("complete", order, reason)
        return self._omitted(result, own_reason)

    def _omitted(self, result: int, own_reason: str | None) -> ResultDecision:
        view = self.rendered.view
        if view.history.results.call_event[result] == NO_CALL:
            return ResultDecision("omitted", None, "no call asked for it")
        if not view.eligible[result] and view.history.results.turn[result] in self._dropped_turns:
            return ResultDecision(
                "omitted", None, "its whole turn left to make room for later text"
            )
        if result in self._behind:
            position = view.history.results.message[self._behind[result]]
            return ResultDecision("excerpt", None, BACK.format(position=position))
        if own_reason:
            ranked = self.rebuilt.said(result) if self.rebuilt else ""
            return ResultDecision("omitted", None, own_reason + ranked, self._free - self._used[-1])
        cost = int(view.costs[result])
        after = bisect_left(self._used, True, key=lambda used: cost > self._free - used)
        if after == len(self._used):
            return ResultDecision(
                "omitted", None, KEPT_FREE, self._free - self._used[-1], after - 1
            )
        reason = NO_ROOM if after else TOO_LARGE
        return ResultDecision("omitted", None, reason, self._free - self._used[after], after)

    @cached_property
    def rebuilt(self) -> LastRebuild | None:
        """What competed when the prompt was rebuilt, where the policy does that."""
        return LastRebuild(self.rendered) if self.rendered.selection.rebuilt else None

    @cached_property
    def _behind(self) -> dict[int, int]:
        """By result that came back: the last one behind which it stands."""
        restored = self.rendered.selection.restored
        return {result: host for host, made in restored.items() for result in made.results}

    @cached_property
    def _dropped_turns(self) -> frozenset[int]:
        return frozenset(self.rendered.selection.text.turns)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {
            result: place for place, result in enumerate(self.rendered.selection.shown_order, 1)
        }

    @cached_property
    def _free(self) -> int:
        """Tokens that retained text left for results."""
        return self.rendered.budget - self.rendered.text_tokens

    @cached_property
    def _used(self) -> Sequence[int]:
        """Tokens taken by the first 0, 1, 2 ... of those shown, in the order taken."""
        plan, view = self.rendered.selection, self.rendered.view
        calls = view.history.results.call_tokens
        sizes = (
            calls[result] + plan.limits.get(result, plan.excerpts[result].tokens)
            if result in plan.excerpts
            else int(view.costs[result])
            for result in plan.shown_order
        )
        return list(accumulate(sizes, initial=0))


@dataclass(slots=True, frozen=True)
class UseRow:
    """An operation that drew on the result; `values` maps each value to n, the results with it."""

    event: int
    position: int
    turn: int
    values: dict[str, int]


@dataclass(slots=True, frozen=True)
class ResultRow:
    """One result: place, scores (None where the policy ranks by none), sizes and verdict."""

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
    verdict: ResultDecision
    pinned: bool
    uses: list[UseRow]


def explain_results(
    rendered: RenderedCall,
    numbers: Sequence[int] | None = None,
    decisions: Mapping[int, ResultDecision] | None = None,
) -> list[ResultRow]:
    """Return a row for each of these results (by number), or for every one in transcript order.

    `decisions` are recorded ones, in place of those that follow from the rendering; how results
    ranked at the last rebuild is told without them alone. c follows from the uses.
    """
    view, scores = rendered.view, rendered.selection.scores
    history, results = view.history, view.history.results
    wanted = range(len(results)) if numbers is None else numbers
    among = set(wanted)
    uses: dict[int, list[UseRow]] = {}
    drawn = [use for use in history.reuse.uses if use.result in among]
    holders = history.reuse.holders([value for use in drawn for value in use.values])
    for use in drawn:
        position = bisect_right(history.first_events, use.operation) - 1
        values = {value: holders[value] for value in use.values if value in holders}
        uses.setdefault(use.result, []).append(
            UseRow(use.operation, position, history.turns[position], values)
        )
    verdicts, pins = Verdicts(rendered), view.pins
    rebuilt, pinned = verdicts.rebuilt if decisions is None else None, bool(pins)
    return [
        ResultRow(
            results.message[r],
            results.event[r],
            results.turn[r],
            int(view.ages[r]),
            _reuse(uses.get(r, ())),
            float(scores.relevance[r]) if scores and scores.relevance is not None else None,
            float(scores.usefulness[r]) if scores else None,
            float(scores.score[r]) if scores else rebuilt.score(r) if rebuilt else None,
            results.tokens[r],
            int(view.costs[r]),
            verdicts.of(r) if decisions is None else decisions[r],
            pinned and pins.names(history.names[results.event[r]], results.call_id[r]),
            uses.get(r, []),
        )
        for r in wanted
    ]


def _reuse(uses: Sequence[UseRow]) -> float:
    """c: the sum over all matches of 1/n, rounded as `ReuseIndex.scores` does."""
    matches = Counter(value for use in uses for value in use.values)
    holders = {value: n for use in uses for value, n in use.values.items()}
    return fsum(matches[value] / n for value, n in holders.items())


OTHERWISE: Final = "so it was when the call was made; today"
SENT_WHOLE: Final = "the whole history was sent; rendered,"


def as_shown_then(
    numbers: Sequence[int],
    rows: Sequence[ResultRow],
    recorded: Selection,
    today: Selection,
    *,
    whole: bool,
) -> list[ResultRow]:
    """Return the rows of these results with what was recorded in place of what is recomputed.

    `whole`: the history was sent whole, and only the rendering would have left anything out.
    """
    differing = recorded.differing_results(today)
    because = SENT_WHOLE if whole else OTHERWISE
    return [
        _recorded_row(row, number, recorded, because) if number in differing else row
        for number, row in zip(numbers, rows, strict=True)
    ]


def differing_sentence(differing: int) -> str:
    """Shown for a call that today's rules would render otherwise."""
    results = "1 result" if differing == 1 else f"{differing:,} results"
    return f"Today's rules would show {results} otherwise than when this call was made."


def _recorded_row(row: ResultRow, number: int, recorded: Selection, because: str) -> ResultRow:
    now = row.verdict
    then = "complete" if number in recorded.complete else "omitted"
    if number in recorded.partial:
        then = "excerpt"
    reason = f"{because} it would be {now.shown}: {now.reason}"
    return replace(row, verdict=ResultDecision(then, None, reason))
