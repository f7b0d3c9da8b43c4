"""Costs of a run's calls, rendered and with full history, and of rendered and holdout sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.call.usage_totals import CallTotals, Row, read_rows
from contextrender_bridge.engine.replay.replayed_calls import ReplayedCall
from contextrender_bridge.engine.text.percentage import percent


@dataclass(slots=True, frozen=True)
class CostCurve:
    """Sums over a run's first calls, and the cumulative costs in dollars after each call.

    - `full_usage` is the summed usage with full history. `full_prompts` has the prompt tokens of
      each call with full history. Full histories are cut at the model's window.
    - `recall_events` counts the pairs of an answer and an earlier result whose tokens it repeats.
      `recall_events_complete` counts the pairs whose result was complete in the prompt.
    - `calls_with_uses` counts the calls whose answer used an earlier result. `calls_with_misses`
      counts the calls with a miss. `misses` counts all misses.
    - `calls_without_price` counts the calls of models without a price. They cost 0 here.
    - `price_sources` has, for each model without a price of its own, the model whose price is used.
    """

    calls: Sequence[ReplayedCall]
    usage: Usage
    full_usage: Usage
    full_prompts: list[int]
    recall_events: int
    recall_events_complete: int
    cost: list[float]
    full_cost: list[float]
    calls_without_price: int
    price_sources: dict[str, str]
    calls_with_uses: int
    calls_with_misses: int
    misses: int


def cost_curve(
    calls: Sequence[ReplayedCall],
    prices: Prices,
    model: str = "",
    recall_results: Callable[[int], Sequence[int]] = lambda turn: (),
) -> CostCurve:
    """Return the sums and the costs of `calls`: all calls of a run up to some call, in order.

    `model` is used for calls that do not name one. `recall_results` returns the results that the
    answer of a turn repeats (docs/method.md, Measures).
    """
    # Pairs of a call and a result that its answer repeats.
    recalled = [(call, result) for call in calls for result in recall_results(call.turn)]
    models = [call.model or model for call in calls]
    price_by_model = {name: prices.of_model(name) for name in set(models)}
    price_sources = {name: prices.price_source_of(name) for name in price_by_model}
    # The costs of each call, as rendered and with full history.
    full_usages: list[Usage] = []
    costs: list[float] = []
    full_costs: list[float] = []
    for call, name in zip(calls, models, strict=True):
        # A full history above the model's window could not be sent.
        full_usage = _cap_to_window(call.full_usage, window_of(name))
        full_usages.append(full_usage)
        costs.append(_cost(call.usage, price_by_model[name]))
        full_costs.append(_cost(full_usage, price_by_model[name]))
    return CostCurve(
        calls=calls,
        usage=reduce(Usage.plus, (call.usage for call in calls), NOTHING_USED),
        full_usage=reduce(Usage.plus, full_usages, NOTHING_USED),
        full_prompts=[full_usage.prompt for full_usage in full_usages],
        recall_events=len(recalled),
        recall_events_complete=sum(call.has_complete(result) for call, result in recalled),
        cost=list(accumulate(costs)),
        full_cost=list(accumulate(full_costs)),
        calls_without_price=sum(price_by_model[name] is None for name in models),
        price_sources={name: source for name, source in price_sources.items() if source},
        calls_with_uses=sum(bool(call.uses or call.misses) for call in calls),
        calls_with_misses=sum(bool(call.misses) for call in calls),
        misses=sum(call.misses for call in calls),
    )


def _cost(usage: Usage, price: Price | None) -> float:
    """Return the cost of a usage in dollars, 0 without a price."""
    return price.cost_of_counts(usage.prompt, usage.cache_read, usage.output) if price else 0.0


def _cap_to_window(full_usage: Usage, window: int | None) -> Usage:
    """Return the usage of a full history that is cut at the model's window, if that is known."""
    prompt = min(full_usage.prompt, window or full_usage.prompt)
    return Usage.of_prompt(prompt, min(full_usage.cache_read, prompt), full_usage.output)


MIN_SESSIONS: Final = 20
"""The number of sessions that each group needs for a comparison."""
RESAMPLES: Final = 2_000
INTERVAL: Final = (2.5, 97.5)
"""The percentiles between which 95% of the values are."""
MEASURES: Final = ("calls", "full_tokens_per_call", "prompt", "uncached", "cached", "output")


@dataclass(slots=True, frozen=True)
class BilledSession:
    """The sums of one session's calls with usage.

    `holdout` is true if the session received full histories for comparison, and false if it was
    rendered. `full_tokens_per_call` is the mean size of the full history, over all calls of the
    session. `prompt` tokens are either `cached`, as read from the provider's cache, or `uncached`.
    """

    holdout: bool
    calls: int
    full_tokens_per_call: float
    prompt: int
    uncached: int
    cached: int
    output: int

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self | None:
        """Return a session from the rows of its totals, or None if it belongs to neither group.

        The groups are the holdout sessions, which have a call with the delivery `holdout`, and the
        other sessions with a call that has the delivery `rendered`. A session whose calls all have
        the delivery `full`, or have no usage, belongs to neither.
        """
        deliveries: set[str] = set()
        total = CallTotals()
        for (*_, delivery), sums in read_rows(rows):
            deliveries.add(delivery)
            total = total.plus(sums)
        has_group = bool(deliveries & {"holdout", "rendered"})
        if not total.calls_with_usage or not has_group:
            return None
        # All tokens that were not read from the cache, also those that were written to it.
        uncached = total.uncached + total.cache_write + total.cache_write_1h
        return cls(
            holdout="holdout" in deliveries,
            calls=total.calls_with_usage,
            full_tokens_per_call=total.full / max(total.calls, 1),
            prompt=uncached + total.cache_read,
            uncached=uncached,
            cached=total.cache_read,
            output=total.usage_output,
        )


@dataclass(slots=True, frozen=True)
class Ratio:
    """A measure's means in rendered and in holdout sessions, and the ratio of the means.

    `low` and `high` are the 95% confidence interval of the ratio, by a bootstrap over sessions. The
    ratio and its interval are None if a group has too few sessions, or if the holdout's mean is 0.
    """

    measure: str
    rendered: float
    holdout: float
    ratio: float | None
    low: float | None
    high: float | None


def compare_groups(sessions: Sequence[BilledSession]) -> list[Ratio]:
    """Return, for each of the `MEASURES`, the ratio of rendered to holdout sessions."""
    rendered = [session for session in sessions if not session.holdout]
    holdout = [session for session in sessions if session.holdout]
    has_enough = min(len(rendered), len(holdout)) >= MIN_SESSIONS
    return [
        _ratio(
            measure, _values(rendered, measure), _values(holdout, measure), has_enough=has_enough
        )
        for measure in MEASURES
    ]


def sentence(rendered: int, holdout: int, ratios: Sequence[Ratio]) -> str:
    """Return the comparison of the groups in one sentence.

    `rendered` and `holdout` are the numbers of sessions in the groups.
    """
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


def _values(group: Sequence[BilledSession], measure: str) -> NDArray[np.float64]:
    """Return a measure of each session."""
    return np.array([getattr(session, measure) for session in group], np.float64)


def _ratio(
    measure: str, rendered: NDArray[np.float64], holdout: NDArray[np.float64], *, has_enough: bool
) -> Ratio:
    """Return the ratio of the groups' means with a confidence interval, which a bootstrap finds.

    `rendered` and `holdout` have the measure of each session. `has_enough` says whether both groups
    have enough sessions.
    """
    rendered_mean = float(rendered.mean()) if len(rendered) else 0.0
    holdout_mean = float(holdout.mean()) if len(holdout) else 0.0
    if not has_enough or not holdout_mean:
        return Ratio(measure, rendered_mean, holdout_mean, None, None, None)
    # Draw sessions of each group with replacement, and take their means, many times.
    generator = np.random.default_rng(0)
    rendered_means, holdout_means = (
        np.array([generator.choice(group, len(group)).mean() for _ in range(RESAMPLES)])
        for group in (rendered, holdout)
    )
    is_positive = holdout_means > 0  # a resampled group may have only sessions with 0
    ratios = rendered_means[is_positive] / holdout_means[is_positive]
    low, high = np.percentile(ratios, INTERVAL)
    ratio = rendered_mean / holdout_mean
    return Ratio(measure, rendered_mean, holdout_mean, ratio, float(low), float(high))
