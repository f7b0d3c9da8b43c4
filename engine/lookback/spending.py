"""What a run's calls cost under one setting, beside full history."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import NOTHING_USED, Usage

from engine.lookback.steps import Step


@dataclass(slots=True, frozen=True)
class Spending:
    """Sums over a run's first calls, and costs in dollars as they grew call by call.

    `full` histories are at most their model's window. `unpriced` calls are of models without a
    price, and not in the costs. `priced_as` names models whose price is another's, and whose.
    """

    steps: Sequence[Step]
    usage: Usage
    full: Usage
    fulls: list[int]
    events: int
    seen: int
    cost: list[float]
    full_cost: list[float]
    unpriced: int
    priced_as: dict[str, str]


def spend(steps: Sequence[Step], prices: Prices, model: str = "") -> Spending:
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
            made.append(price.counted(usage.prompt, usage.read, usage.output) if price else 0.0)
    return Spending(
        steps,
        reduce(Usage.plus, (step.usage for step in steps), NOTHING_USED),
        reduce(Usage.plus, fulls, NOTHING_USED),
        [full.prompt for full in fulls],
        sum(len(step.needed) for step in steps),
        sum(step.seen for step in steps),
        list(accumulate(costs)),
        list(accumulate(full_costs)),
        sum(known[name] is None for name in models),
        {name: other for name in known if (other := prices.stands_as(name))},
    )


def _within(full: Usage, window: int | None) -> Usage:
    prompt = min(full.prompt, window or full.prompt)
    return Usage.of_prompt(prompt, min(full.read, prompt), full.output)
