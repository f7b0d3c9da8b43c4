"""What a run's calls cost under one setting, beside full history."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.costs import Usage
from engine.lookback.steps import Step


@dataclass(slots=True, frozen=True)
class Spending:
    """Sums over a run's first calls, and costs in dollars as they grew call by call.

    `paper` costs use one cached fraction, full history's over these calls.
    """

    steps: Sequence[Step]
    usage: Usage
    full: Usage
    events: int
    seen: int
    paper: list[float]
    paper_full: list[float]
    prefix: list[float]
    prefix_full: list[float]


def spend(steps: Sequence[Step]) -> Spending:
    """Adds up calls, which must be a run's first ones in order."""
    usage = list(accumulate((step.usage for step in steps), Usage.plus, initial=Usage()))[1:]
    full = list(accumulate((step.full for step in steps), Usage.plus, initial=Usage()))[1:]
    total = full[-1] if full else Usage()
    share = total.cached_fraction
    return Spending(
        steps,
        usage[-1] if usage else Usage(),
        total,
        sum(len(step.needed) for step in steps),
        sum(step.seen for step in steps),
        [sums.paper_cost(share) for sums in usage],
        [sums.paper_cost(share) for sums in full],
        [sums.prefix_cost for sums in usage],
        [sums.prefix_cost for sums in full],
    )
