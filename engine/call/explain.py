"""Why each result was shown or not in one rendering, and the uses behind its reuse score."""

from bisect import bisect_right
from dataclasses import dataclass

from engine.call.render_call import Rendered
from engine.history.history import NO_CALL


@dataclass(slots=True, frozen=True)
class Verdict:
    """`shown` is "complete", "excerpt", "compaction", "summary" or "omitted", `reason` says why.

    `order` is its place among those taken.
    """

    shown: str
    order: int | None
    reason: str


@dataclass(slots=True, frozen=True)
class UseRow:
    """An operation that drew on the result; `values` maps each value to n, the results with it."""

    event: int
    position: int
    turn: int
    values: dict[str, int]


@dataclass(slots=True, frozen=True)
class Row:
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
    verdict: Verdict
    uses: list[UseRow]


def explain_results(rendered: Rendered) -> list[Row]:
    """A row for every result, in transcript order."""
    view, plan = rendered.view, rendered.plan
    history, results = view.history, view.history.results
    scores = plan.scores
    uses: dict[int, list[UseRow]] = {}
    for use in history.reuse.uses:
        position = bisect_right(history.first_events, use.operation) - 1
        uses.setdefault(use.result, []).append(
            UseRow(
                use.operation, position, history.turns[position], history.reuse.holders(use.values)
            )
        )
    order = {result: place for place, result in enumerate(plan.shown_order, 1)}
    return [
        Row(
            results.message[r],
            results.event[r],
            results.turn[r],
            int(view.ages[r]),
            float(view.reuse[r]),
            float(scores.relevance[r]) if scores and scores.relevance is not None else None,
            float(scores.usefulness[r]) if scores else None,
            float(scores.score[r]) if scores else None,
            results.tokens[r],
            int(view.costs[r]),
            _verdict(rendered, r, order.get(r)),
            uses.get(r, []),
        )
        for r in range(len(results))
    ]


def _verdict(rendered: Rendered, result: int, order: int | None) -> Verdict:
    view, plan = rendered.view, rendered.plan
    results = view.history.results
    own_reason = plan.reasons.get(result)
    if result in plan.replaced:
        kind = rendered.kinds[result]
        if own_reason:
            return Verdict(kind, order, own_reason)
        return Verdict(
            kind,
            order,
            f"larger than the budget, so {kind} of at most {plan.replaced[result]} tokens",
        )
    if order is not None:
        reason = "the whole history fits" if view.fits else own_reason or "selected"
        return Verdict("complete", order, reason)
    if results.call_event[result] == NO_CALL:
        return Verdict("omitted", None, "no call asked for it")
    if results.turn[result] in plan.retained.left_turns:
        return Verdict("omitted", None, "its whole turn left to make room for later text")
    if own_reason:
        return Verdict("omitted", None, own_reason)
    free = view.budget - plan.retained.tokens
    if view.costs[result] > free:
        return Verdict("omitted", None, f"larger than the {free} tokens free for results")
    return Verdict("omitted", None, "results with a higher score filled the budget")
