"""One sentence on a replay: what to use, what it would save, what it would hide, and how sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.base.worth import pays_from
from contextrender_bridge.engine.parameters import START, budget_name
from contextrender_bridge.evaluation.bootstrap import Estimate, span
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.figures import RULE_TITLES
from contextrender_bridge.evaluation.prices import cost_of, price_under
from contextrender_bridge.evaluation.scores import RunScore

Known = Sequence[tuple[Case, Mapping[str, Estimate]]]

HIDDEN: Final = 0.05
"""Share of the steps drawing on results that may lack something, for a case to be advised."""
MOST: Final = 0.75
"""Share of the runs of a length that have to save, for it to be said that it pays there."""
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
    def is_default(self) -> bool:
        """Whether it is what live agents get where nothing is set."""
        return self.case.name == LIVE_POLICY and budget_name(self.case.budget) == LIVE_BUDGET

    @property
    def hides_little(self) -> bool:
        """Whether few enough steps would lack something: none can where none drew on a result."""
        return self.hidden.value is None or self.hidden.value <= HIDDEN

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "policy": self.case.name,
            "budget": budget_name(self.case.budget),
            "cost": self.cost.to_json(),
            "hidden": self.hidden.to_json(),
            "dollars": self.dollars,
            "full_dollars": self.full_dollars,
        }


@dataclass(slots=True, frozen=True)
class RunLength:
    """One run: the tokens of its longest history, and what each case costs of full history's."""

    tokens: int
    costs: Mapping[Case, float]


def lengths_of(scores: Sequence[RunScore], rule: str) -> list[RunLength]:
    """The runs' lengths and costs, with what is fetched again where that was replayed."""
    found = []
    for run in scores:
        price = price_under(rule, run.model)
        full = cost_of(price, run.full_bills[rule], run.full.output)
        costs = {}
        for score in run.cases if full else ():
            loop = score.loop
            bill, output = (
                (loop.bills[rule], loop.output) if loop else (score.bills[rule], score.sent.output)
            )
            costs[score.case] = cost_of(price, bill, output) / full
        found.append(RunLength(max(run.full_calls, default=0), costs))
    return found


@dataclass(slots=True, frozen=True)
class Verdict:
    """What was replayed, under one provider's `rule`, and the case advised, None for full history.

    `tasks` is what intervals rest on; `runs` are the lengths of what was replayed, where known,
    and `model` is that of most of them.
    """

    best: Advised | None
    options: Sequence[Advised]
    rule: str
    tasks: int
    runs: Sequence[RunLength] = ()
    model: str = ""

    @property
    def pays_from(self) -> int | None:
        """The shortest length of a history from which on most of the runs saved."""
        if self.best is None:
            return None
        case = self.best.case
        saved, found = 0, None
        for longer, run in enumerate(sorted(self.runs, key=lambda run: -run.tokens), 1):
            has_saved = run.costs.get(case, 1.0) <= 1 - WORTH
            saved += has_saved
            if has_saved and saved >= MOST * longer:
                found = run.tokens
        return found

    @property
    def usually_pays_from(self) -> int:
        """The length of a history from which it pays for such models, as measured on other runs."""
        return pays_from(self.rule, self.model)

    @property
    def that_long(self) -> int:
        """How many of the runs are as long."""
        start = self.pays_from
        return 0 if start is None else sum(run.tokens >= start for run in self.runs)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        cache = RULE_TITLES[self.rule].replace("cache", "prompt cache")
        if self.best is not None:
            return self._saves(self.best, cache)
        longest = max((run.tokens for run in self.runs), default=0)
        least = min((option.case.budget or START for option in self.options), default=0)
        is_usual = _default(self.options) is not None or longest <= least
        if self.runs and is_usual and longest < self.usually_pays_from:
            return (
                f"The longest history of these runs is {longest:,} tokens; under {cache}, "
                f"ContextRender pays from about {self.usually_pays_from:,}. Leave it off for such "
                "runs."
            )
        if (default := _default(self.options)) is not None:
            return (
                f"Full history does as well for these runs: under {cache}, the default would cost "
                f"{default.cost.value or 0:.1%} of its bill{_again(default)}."
            )
        return (
            f"Full history is best for these runs: under {cache}, nothing that was replayed "
            f"saves {WORTH:.0%} of the bill and hides something needed in at most {HIDDEN:.0%} "
            "of the steps that use earlier results."
        )

    def _saves(self, best: Advised, cache: str) -> str:
        within = f"of {best.case.size} tokens" if best.case.budget else "that finds itself"
        hides = "nothing needed, since no step uses an earlier result"
        if best.hidden.value is not None:
            share = _span(best.hidden)
            hides = f"something needed in {share} of the steps that use earlier results"
        sure = f"in brackets, 95% intervals over {self.tasks} tasks"
        if best.cost.low is None:
            sure = "one task does not show how sure that is"
        said = (
            f"{best.case.name} with a budget {within} would save {_span(_rest(best.cost))} of the "
            f"bill under {cache} (${best.dollars:.2f} instead of ${best.full_dollars:.2f} a run"
            f"{_again(best)}), and hide {hides}; {sure}."
        )
        if self.pays_from is None:
            return said
        return (
            f"{said} It pays from histories of {self.pays_from:,} tokens on: {self.that_long} of "
            f"{len(self.runs)} runs reach that."
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "sentence": self.sentence,
            "best": self.best.to_json() if self.best else None,
            "options": [option.to_json() for option in self.options],
            "rule": self.rule,
            "tasks": self.tasks,
            "runs": len(self.runs),
            "pays_from": self.pays_from,
            "usually_pays_from": self.usually_pays_from,
            "that_long": self.that_long,
        }


def verdict_on(
    known: Known, rule: str, tasks: int, runs: Sequence[RunLength] = (), model: str = ""
) -> Verdict:
    """What to use, if it saves enough: what live agents get where nothing is set, if that is among
    the cases, else the cheapest that hides little. `known` are the cases with their figures.
    """
    options = [Advised.of(case, figures, rule) for case, figures in known if case.policy != "full"]
    fitting = [each for each in options if each.hides_little and each.cost.value is not None]
    best = _default(options) or min(fitting, key=lambda each: each.cost.value or 0.0, default=None)
    if best is not None and (best.cost.value or 0.0) > 1 - WORTH:
        best = None
    return Verdict(best, options, rule, tasks, runs, model)


def _default(options: Sequence[Advised]) -> Advised | None:
    known = (each for each in options if each.is_default and each.cost.value is not None)
    return next(known, None)


def _again(option: Advised) -> str:
    return ", what is fetched again included" if option.loop else ""


def _rest(share: Estimate) -> Estimate:
    """What is missing to 1."""
    ends = share.value, share.high, share.low
    return Estimate(*(None if end is None else 1 - end for end in ends))


def _span(share: Estimate) -> str:
    """A share as words have it, with its interval if it has one."""
    if share.value is None:
        return "an unknown share"
    return f"{share.value:.1%} {span(share)}".strip()
