"""One sentence on a replay: what to use, what it would save, what it would hide, and how sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from evaluation.bootstrap import Estimate, span
from evaluation.cases import Case
from evaluation.figures import RULE_TITLES

Known = Sequence[tuple[Case, Mapping[str, Estimate]]]

HIDDEN: Final = 0.05
"""Share of the steps drawing on results that may lack something, for a case to be advised."""
WORTH: Final = 0.02
"""Share of the bill that a case must save to be advised."""


@dataclass(slots=True, frozen=True)
class Advised:
    """A case and what it comes to, as shares of 1.

    `cost` is of full history's whole bill, with what is fetched again if that was replayed
    (`loop`); `hidden` is the share of the steps drawing on results that would lack something.
    `dollars` and `full_dollars` are those of a run.
    """

    case: Case
    cost: Estimate
    hidden: Estimate
    loop: bool
    dollars: float
    full_dollars: float

    @classmethod
    def of(cls, case: Case, figures: Mapping[str, Estimate], rule: str) -> Self:
        """From a case's figures, under one of `caches.RULES`."""
        loop = figures[f"{rule}_loop"].value is not None
        billed = figures[f"{rule}_calls"]
        cost = figures[f"{rule}_loop"] if loop else billed
        full = (figures[f"{rule}_dollars"].value or 0.0) / (billed.value or 1.0)
        hidden = _rest(figures["turns_with_all_values"])
        return cls(case, cost, hidden, loop, (cost.value or 0.0) * full, full)

    @property
    def hides_little(self) -> bool:
        """Whether few enough steps would lack something; not when that cannot be told."""
        return self.hidden.value is not None and self.hidden.value <= HIDDEN

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "policy": self.case.name,
            "budget": self.case.budget,
            "cost": self.cost.to_json(),
            "hidden": self.hidden.to_json(),
            "dollars": self.dollars,
            "full_dollars": self.full_dollars,
        }


@dataclass(slots=True, frozen=True)
class Verdict:
    """What was replayed, under one provider's `rule`, and the case advised, None for full history.

    `tasks` is what intervals rest on.
    """

    best: Advised | None
    options: Sequence[Advised]
    rule: str
    tasks: int

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        cache = RULE_TITLES[self.rule].replace("cache", "prompt cache")
        best = self.best
        if best is None:
            return (
                f"Full history is best for these runs: under {cache}, nothing that was replayed "
                f"saves {WORTH:.0%} of the bill and hides something needed in at most {HIDDEN:.0%} "
                "of the steps that draw on earlier results."
            )
        again = ", what is fetched again included" if best.loop else ""
        return (
            f"{best.case.name} with a budget of {best.case.budget:,} tokens would save "
            f"{_span(_rest(best.cost))} of the bill under {cache} (${best.dollars:.2f} instead of "
            f"${best.full_dollars:.2f} a run{again}), and hide something needed in "
            f"{_span(best.hidden)} of the steps that draw on earlier results; {self._sureness}."
        )

    @property
    def _sureness(self) -> str:
        if self.best is None or self.best.cost.low is None:
            return "how sure that is cannot be told from one task"
        return f"in brackets, 95% intervals over {self.tasks} tasks"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "sentence": self.sentence,
            "best": self.best.to_json() if self.best else None,
            "options": [option.to_json() for option in self.options],
            "rule": self.rule,
            "tasks": self.tasks,
        }


def verdict_on(known: Known, rule: str, tasks: int) -> Verdict:
    """The cheapest case that hides little, if it saves enough; `known` are cases with figures."""
    options = [Advised.of(case, figures, rule) for case, figures in known if case.policy != "full"]
    fitting = [each for each in options if each.hides_little and each.cost.value is not None]
    best = min(fitting, key=lambda each: each.cost.value or 0.0, default=None)
    if best is not None and (best.cost.value or 0.0) > 1 - WORTH:
        best = None
    return Verdict(best, options, rule, tasks)


def _rest(share: Estimate) -> Estimate:
    """What is missing to 1."""
    value, low, high = (None if end is None else 1 - end for end in _ends(share))
    return Estimate(value, high, low)


def _ends(share: Estimate) -> tuple[float | None, float | None, float | None]:
    return share.value, share.low, share.high


def _span(share: Estimate) -> str:
    """A share as words have it, with its interval if it has one."""
    if share.value is None:
        return "an unknown share"
    return f"{share.value:.1%} {span(share)}".strip()
