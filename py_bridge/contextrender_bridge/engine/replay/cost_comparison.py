"""Costs of a run's calls under one setting and with full history, and of the holdout's sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.call.usage_totals import Row, read_rows
from contextrender_bridge.engine.replay.replayed_calls import ReplayedCall
from contextrender_bridge.engine.text.percentage import percent


@dataclass(slots=True, frozen=True)
class CostCurve:
    """Sums over a run's first calls, and the cumulative costs in dollars after each call.

    - `full` is the usage with full history, `fulls` its prompt tokens of each call. Full histories
      are cut at the model's window.
    - `events` counts the results that answers needed, and `needed_complete` those of them that were
      complete in the prompt.
    - `unpriced` counts the calls of models without a price; the costs are without these calls.
    - `price_source` names, for a model without a price of its own, the model whose price is used.
    - `steps_using` counts the calls whose answer used an earlier result, `steps_missing` those of
      them with a miss. `misses` counts all misses.
    """

    steps: Sequence[ReplayedCall]
    usage: Usage
    full: Usage
    fulls: list[int]
    events: int
    needed_complete: int
    cost: list[float]
    full_cost: list[float]
    unpriced: int
    price_source: dict[str, str]
    steps_using: int
    steps_missing: int
    misses: int


def spend(steps: Sequence[ReplayedCall], prices: Prices, model: str = "") -> CostCurve:
    """Sum the usage and the cost of a run's first calls, given in order.

    `model` is used for calls that do not name one.
    """
    models = [step.model or model for step in steps]
    fulls = [
        _cap_to_window(step.full_usage, window_of(name))
        for step, name in zip(steps, models, strict=True)
    ]
    price_by_model = {name: prices.of_model(name) for name in set(models)}
    costs: list[float] = []
    full_costs: list[float] = []
    for step, full, name in zip(steps, fulls, models, strict=True):
        costs.append(_cost(step.usage, price_by_model[name]))
        full_costs.append(_cost(full, price_by_model[name]))
    return CostCurve(
        steps,
        reduce(Usage.plus, (step.usage for step in steps), NOTHING_USED),
        reduce(Usage.plus, fulls, NOTHING_USED),
        [full.prompt for full in fulls],
        sum(len(step.needed) for step in steps),
        sum(step.needed_complete for step in steps),
        list(accumulate(costs)),
        list(accumulate(full_costs)),
        sum(price_by_model[name] is None for name in models),
        {name: source for name in price_by_model if (source := prices.price_source_of(name))},
        sum(bool(step.uses or step.misses) for step in steps),
        sum(bool(step.misses) for step in steps),
        sum(step.misses for step in steps),
    )


def _cost(usage: Usage, price: Price | None) -> float:
    return price.cost_of_counts(usage.prompt, usage.cache_read, usage.output) if price else 0.0


def _cap_to_window(full: Usage, window: int | None) -> Usage:
    prompt = min(full.prompt, window or full.prompt)
    return Usage.of_prompt(prompt, min(full.cache_read, prompt), full.output)


MIN_SESSIONS: Final = 20
"""The sessions that each group needs before the groups are compared."""
RESAMPLES: Final = 2_000
TAIL: Final = 2.5
MEASURES: Final = ("calls", "length", "prompt", "uncached", "cached", "output")


@dataclass(slots=True, frozen=True)
class BilledSession:
    """The calls of one session that have a provider's usage, and their tokens.

    `length` is the mean of the full history's tokens, over all calls of the session. Of the
    `prompt` tokens, `cached` tokens were read from the provider's cache and `uncached` were not.
    """

    holdout: bool
    calls: int
    length: float
    prompt: int
    uncached: int
    cached: int
    output: int

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self | None:
        """Return a session from its `usage_totals`, or None if it is in neither group.

        A session is in the holdout if one of its calls is. A session whose calls were only recorded
        is in no group.
        """
        keyed_totals = list(read_rows(rows))
        deliveries = {key[-1] for key, _ in keyed_totals}
        totals = [call_totals for _, call_totals in keyed_totals]
        calls_with_usage = sum(total.calls_with_usage for total in totals)
        if not calls_with_usage or not deliveries & {"holdout", "rendered"}:
            return None
        uncached = sum(
            total.uncached + total.cache_write + total.cache_write_1h for total in totals
        )
        cached = sum(total.cache_read for total in totals)
        calls = sum(total.calls for total in totals)
        return cls(
            "holdout" in deliveries,
            calls_with_usage,
            sum(total.full for total in totals) / max(calls, 1),
            uncached + cached,
            uncached,
            cached,
            sum(total.usage_output for total in totals),
        )


@dataclass(slots=True, frozen=True)
class Ratio:
    """A measure's means in rendered and in holdout sessions, and their ratio.

    `low` and `high` are the 95% confidence interval of the ratio, by a bootstrap over sessions. If
    a group has too few sessions, the ratio and its interval are None.
    """

    measure: str
    rendered: float
    holdout: float
    ratio: float | None
    low: float | None
    high: float | None


def compare_groups(sessions: Sequence[BilledSession]) -> list[Ratio]:
    """Return the means and the ratio of every measure."""
    rendered = [session for session in sessions if not session.holdout]
    holdout = [session for session in sessions if session.holdout]
    enough = min(len(rendered), len(holdout)) >= MIN_SESSIONS
    return [
        _ratio(name, _values(rendered, name), _values(holdout, name), enough=enough)
        for name in MEASURES
    ]


def sentence(rendered: int, holdout: int, ratios: Sequence[Ratio]) -> str:
    """Return the comparison of the groups in one sentence."""
    if min(rendered, holdout) < MIN_SESSIONS:
        return (
            f"Too little to compare: {rendered} rendered and {holdout} held-out sessions with "
            f"usage, {MIN_SESSIONS} of each are needed."
        )
    prompts = next(ratio for ratio in ratios if ratio.measure == "prompt")
    if prompts.ratio is None or prompts.low is None or prompts.high is None:
        return "The held-out sessions' providers reported no prompt tokens."
    chance = ", which may be chance" if prompts.low <= 1 <= prompts.high else ""
    return (
        f"A rendered session's prompts have {percent(prompts.ratio)} of the tokens that a held-out "
        f"session's prompts have ({percent(prompts.low)} to {percent(prompts.high)}){chance}."
    )


def _values(group: Sequence[BilledSession], name: str) -> NDArray[np.float64]:
    return np.array([getattr(session, name) for session in group], np.float64)


def _ratio(
    name: str, rendered: NDArray[np.float64], holdout: NDArray[np.float64], *, enough: bool
) -> Ratio:
    """Return the ratio of the groups' means with its confidence interval, if `enough` sessions."""
    rendered_mean, holdout_mean = (
        float(group.mean()) if len(group) else 0.0 for group in (rendered, holdout)
    )
    if not enough or not holdout_mean:
        return Ratio(name, rendered_mean, holdout_mean, None, None, None)
    generator = np.random.default_rng(0)
    rendered_means, holdout_means = (
        np.array([generator.choice(group, len(group)).mean() for _ in range(RESAMPLES)])
        for group in (rendered, holdout)
    )
    ratios = rendered_means[holdout_means > 0] / holdout_means[holdout_means > 0]
    low, high = np.percentile(ratios, [TAIL, 100 - TAIL])
    ratio = rendered_mean / holdout_mean
    return Ratio(name, rendered_mean, holdout_mean, ratio, float(low), float(high))
