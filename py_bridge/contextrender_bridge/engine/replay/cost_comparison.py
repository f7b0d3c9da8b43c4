"""What a run's calls cost under one setting, beside full history; held-out sessions and others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.call.usage_totals import Row, read_rows
from contextrender_bridge.engine.replay.replayed_calls import ReplayedCall


@dataclass(slots=True, frozen=True)
class CostCurve:
    """Sums over a run's first calls, and costs in dollars as they grew call by call.

    `full` histories are at most their model's window. `unpriced` calls are of models without a
    price, and not in the costs. `price_source` names models whose price is another's, and whose.
    Of the `steps_using`, the calls whose answer used an earlier result, `steps_missing` missed a
    value; `misses` counts every miss.
    """

    steps: Sequence[ReplayedCall]
    usage: Usage
    full: Usage
    fulls: list[int]
    events: int
    seen: int
    cost: list[float]
    full_cost: list[float]
    unpriced: int
    price_source: dict[str, str]
    steps_using: int
    steps_missing: int
    misses: int


def spend(steps: Sequence[ReplayedCall], prices: Prices, model: str = "") -> CostCurve:
    """Adds up calls, which must be a run's first ones in order.

    `model` is that of calls which do not tell theirs.
    """
    models = [step.model or model for step in steps]
    fulls = [_within(step.full, window_of(name)) for step, name in zip(steps, models, strict=True)]
    known = {name: prices.of_model(name) for name in set(models)}
    costs: list[float] = []
    full_costs: list[float] = []
    for step, full, name in zip(steps, fulls, models, strict=True):
        price = known[name]
        for usage, made in ((step.usage, costs), (full, full_costs)):
            made.append(
                price.cost_of_counts(usage.prompt, usage.cache_read, usage.output) if price else 0.0
            )
    return CostCurve(
        steps,
        reduce(Usage.plus, (step.usage for step in steps), NOTHING_USED),
        reduce(Usage.plus, fulls, NOTHING_USED),
        [full.prompt for full in fulls],
        sum(len(step.needed) for step in steps),
        sum(step.seen for step in steps),
        list(accumulate(costs)),
        list(accumulate(full_costs)),
        sum(known[name] is None for name in models),
        {name: other for name in known if (other := prices.price_source_of(name))},
        sum(bool(step.uses or step.misses) for step in steps),
        sum(bool(step.misses) for step in steps),
        sum(step.misses for step in steps),
    )


def _within(full: Usage, window: int | None) -> Usage:
    prompt = min(full.prompt, window or full.prompt)
    return Usage.of_prompt(prompt, min(full.cache_read, prompt), full.output)


FEWEST: Final = 20
"""Sessions that each group needs before anything is said of their difference."""
RESAMPLES: Final = 2_000
TAIL: Final = 2.5
MEASURES: Final = ("calls", "length", "prompt", "fresh", "cached", "output")


@dataclass(slots=True, frozen=True)
class BilledSession:
    """One session's calls that came with a bill, and tokens as billed.

    `length` is the mean of the whole history's tokens over all its calls; of the `prompt`, `cached`
    came from the provider's cache and `fresh` did not.
    """

    holdout: bool
    calls: int
    length: float
    prompt: int
    fresh: int
    cached: int
    output: int

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self | None:
        """Return a session's costs from its `usage_totals`; None where it is in neither group.

        A session is held out if any of its calls is; one that was only observed is in no group.
        """
        found = list(read_rows(rows))
        sent = {key[-1] for key, _ in found}
        counted = [sums for _, sums in found]
        calls = sum(sums.billed for sums in counted)
        if not calls or not sent & {"holdout", "rendered"}:
            return None
        fresh = sum(sums.fresh + sums.written + sums.written_long for sums in counted)
        cached = sum(sums.read for sums in counted)
        known = sum(sums.calls for sums in counted)
        return cls(
            "holdout" in sent,
            calls,
            sum(sums.full for sums in counted) / max(known, 1),
            fresh + cached,
            fresh,
            cached,
            sum(sums.billed_output for sums in counted),
        )


@dataclass(slots=True, frozen=True)
class Ratio:
    """A measure's mean in rendered sessions over that in held-out ones, within `low` and `high`.

    The interval is the 95% one of a bootstrap by session; nothing is told of too few sessions.
    """

    measure: str
    rendered: float
    holdout: float
    ratio: float | None
    low: float | None
    high: float | None


def compared(runs: Sequence[BilledSession]) -> list[Ratio]:
    """Every measure's means and ratio."""
    groups = [[run for run in runs if run.holdout is held] for held in (False, True)]
    enough = all(len(group) >= FEWEST for group in groups)
    return [_ratio(name, *map(_values, groups, (name, name)), enough=enough) for name in MEASURES]


def sentence(rendered: int, holdout: int, found: Sequence[Ratio]) -> str:
    """What may be said in one sentence."""
    if min(rendered, holdout) < FEWEST:
        return (
            f"Too little to compare: {rendered} rendered and {holdout} held-out sessions with "
            f"usage, {FEWEST} of each are needed."
        )
    one = next(each for each in found if each.measure == "prompt")
    if one.ratio is None or one.low is None or one.high is None:
        return "The held-out sessions' providers told no prompt tokens."
    sure = "" if not one.low <= 1 <= one.high else ", which may be chance"
    return (
        f"A rendered session's prompts have {one.ratio:.0%} of the tokens that a whole one's have "
        f"({one.low:.0%} to {one.high:.0%}){sure}."
    )


def _values(group: Sequence[BilledSession], name: str) -> NDArray[np.float64]:
    return np.array([getattr(run, name) for run in group], np.float64)


def _ratio(
    name: str, rendered: NDArray[np.float64], held: NDArray[np.float64], *, enough: bool
) -> Ratio:
    one, other = (float(group.mean()) if len(group) else 0.0 for group in (rendered, held))
    if not enough or not other:
        return Ratio(name, one, other, None, None, None)
    draw = np.random.default_rng(0)
    above, below = (
        np.array([draw.choice(group, len(group)).mean() for _ in range(RESAMPLES)])
        for group in (rendered, held)
    )
    ratios = above[below > 0] / below[below > 0]
    low, high = np.percentile(ratios, [TAIL, 100 - TAIL])
    return Ratio(name, one, other, one / other, float(low), float(high))
