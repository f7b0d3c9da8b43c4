"""Why each result was shown or not in one rendering, and the uses behind its reuse score."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from engine.call.render_call import Rendered
from engine.call.verdicts import Verdict, Verdicts


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
    pinned: bool
    uses: list[UseRow]


def explain_results(rendered: Rendered, numbers: Sequence[int] | None = None) -> list[Row]:
    """A row for each of these results (by number), or for every one in transcript order.

    c follows from the uses told with it.
    """
    view, plan = rendered.view, rendered.plan
    history, results = view.history, view.history.results
    wanted = range(len(results)) if numbers is None else numbers
    among = set(wanted)
    scores = plan.scores
    uses: dict[int, list[UseRow]] = {}
    for use in history.reuse.uses:
        if use.result not in among:
            continue
        position = bisect_right(history.first_events, use.operation) - 1
        uses.setdefault(use.result, []).append(
            UseRow(
                use.operation, position, history.turns[position], history.reuse.holders(use.values)
            )
        )
    verdicts, pins = Verdicts(rendered), view.pins
    rebuilt = verdicts.rebuilt
    return [
        Row(
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
            verdicts.of(r),
            bool(pins) and pins.names(history.names[results.event[r]], results.call_id[r]),
            uses.get(r, []),
        )
        for r in wanted
    ]


def _reuse(uses: Sequence[UseRow]) -> float:
    """c: the sum over all matches of 1/n, rounded as `ReuseIndex.scores` does."""
    matches = Counter(value for use in uses for value in use.values)
    holders = {value: n for use in uses for value, n in use.values.items()}
    return fsum(matches[value] / n for value, n in holders.items())
