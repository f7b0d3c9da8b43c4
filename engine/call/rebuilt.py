"""What competed when something last had to leave, for policies that go on from what they showed."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from engine.call.render_call import Rendered
from engine.plan.density import Density, density_of
from engine.plan.moment import Moment, tracker

ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True)
class Rebuilt:
    """The call at which the prompt of this rendering was last rebuilt."""

    rendered: Rendered

    @cached_property
    def density(self) -> Density:
        """S of the results there were."""
        view = self.rendered.view
        return density_of(Moment(view, self.rendered.plan.since, tracker(view)))

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The place by S of every result that competed, from 1."""
        asked = self.density.moment.asked
        competed = (result for result in self.density.order if asked[result])
        return {result: place for place, result in enumerate(competed, 1)}

    @cached_property
    def kept(self) -> int:
        """How many of them were complete in the prompt then, and still are."""
        return sum(result in self.ranks for result in self.rendered.plan.taken)

    def score(self, result: int) -> float | None:
        """S of a result then; None for one that came later."""
        return float(self.density.scores[result]) if result in self.ranks else None

    def said(self, result: int) -> str:
        """How a result that was left out had ranked; empty for one that came later."""
        rank = self.ranks.get(result)
        if rank is None:
            return ""
        if rank <= self.kept:
            return f": ranked {ordinal(rank)}, but too large, or before what was kept as it stood"
        return f": ranked {ordinal(rank)}, {self.kept} fitted"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th ..."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ENDINGS.get(last, 'th')}"
