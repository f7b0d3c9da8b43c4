"""The verdict on a replay: the recommended case, its saving, its misses and their certainty.

Long because its sentence needs the outcomes, the intervals and the lengths of the runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from contextrender_bridge.base.worth import pays_from, pricing_rule_of
from contextrender_bridge.engine.parameters import START_BUDGET, budget_name
from contextrender_bridge.engine.replay import recommendation
from contextrender_bridge.engine.replay.recommendation import MAX_MISS_SHARE, MIN_SAVING, Rating
from contextrender_bridge.evaluation.billing import cost_of, price_under
from contextrender_bridge.evaluation.bootstrap import Bootstrap, Estimate, span
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.figures import RULE_TITLES
from contextrender_bridge.evaluation.scores import RunScore

FiguresByCase = Sequence[tuple[Case, Mapping[str, Estimate]]]

PAYING_SHARE: Final = 0.75
"""A case pays from some length of history if this share of the runs that reach the length save."""


@dataclass(slots=True, frozen=True)
class CaseOutcome:
    """A case with its cost and misses. Shares are in [0, 1].

    `cost` is a share of the full history's cost, with repeated calls if `loop` is set.
    `miss_rate` is the share of steps with a miss among the steps that use earlier results.
    `dollars` and `full_dollars` are the costs per run with the case and with the full history.
    """

    case: Case
    cost: Estimate
    miss_rate: Estimate
    loop: bool
    dollars: float
    full_dollars: float

    @classmethod
    def of(cls, case: Case, figures: Mapping[str, Estimate], rule: str) -> Self:
        """Return the outcome of a case from its figures, under one of `billing.RULES`.

        The cost is the closed loop's if the loop was replayed, otherwise the recorded calls'.
        """
        loop = figures[f"{rule}_loop"].value is not None
        calls_cost = figures[f"{rule}_calls"]
        cost = figures[f"{rule}_loop"] if loop else calls_cost
        # Divide the dollars of the recorded calls by their share of the full history's dollars.
        full_dollars = (figures[f"{rule}_dollars"].value or 0.0) / (calls_cost.value or 1.0)
        return cls(
            case,
            cost=cost,
            miss_rate=_complement(figures["turns_with_all_values"]),
            loop=loop,
            dollars=(cost.value or 0.0) * full_dollars,
            full_dollars=full_dollars,
        )

    @property
    def rating(self) -> Rating:
        """The cost and the misses, by which a case is recommended."""
        budget = budget_name(self.case.budget)
        return Rating(self.case.name, budget, self.cost.value, self.miss_rate.value or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "policy": self.case.name,
            "budget": budget_name(self.case.budget),
            "cost": asdict(self.cost),
            "miss_rate": asdict(self.miss_rate),
            "dollars": self.dollars,
            "full_dollars": self.full_dollars,
        }


@dataclass(slots=True, frozen=True)
class RunLength:
    """The tokens of a run's longest history, and its cost under each case.

    A cost is a share of the full history's cost.
    """

    tokens: int
    costs: Mapping[Case, float]


def run_lengths(scores: Sequence[RunScore], rule: str) -> list[RunLength]:
    """Return the length of each run, and its costs under one of `billing.RULES`.

    A cost includes the repeated calls if the closed loop was replayed.
    """
    lengths: list[RunLength] = []
    for run in scores:
        price = price_under(rule, run.model)
        full_cost = cost_of(price, run.full_bills[rule], run.full.output)
        costs: dict[Case, float] = {}
        for score in run.cases:
            if score.loop:
                cost = cost_of(price, score.loop.bills[rule], score.loop.output)
            else:
                cost = cost_of(price, score.bills[rule], score.agent_usage.output)
            if full_cost:  # otherwise a share cannot be computed
                costs[score.case] = cost / full_cost
        lengths.append(RunLength(max(run.full_calls, default=0), costs))
    return lengths


@dataclass(slots=True, frozen=True)
class Verdict:
    """The recommended case under one provider's billing `rule`; `best` is None for full history.

    `tasks` is the number of tasks that intervals are based on. `runs` are the lengths of the
    replayed runs, if known, and `model` is the model of most of them.
    """

    best: CaseOutcome | None
    options: Sequence[CaseOutcome]
    rule: str
    tasks: int
    runs: Sequence[RunLength] = ()
    model: str = ""

    @property
    def pays_from(self) -> int | None:
        """The tokens of history from which on the recommended case saves; None if it never does.

        It is the smallest length for which two conditions are true: a run of this length saves, and
        of all runs that are at least as long, at least the share `PAYING_SHARE` save.
        """
        if self.best is None:
            return None
        saving_count, shortest = 0, None
        longest_first = sorted(self.runs, key=lambda run: -run.tokens)
        for run_count, run in enumerate(longest_first, 1):
            saves_enough = run.costs.get(self.best.case, 1.0) <= 1 - MIN_SAVING
            if not saves_enough:
                continue
            saving_count += 1
            # `run_count` runs are at least as long as this one.
            if saving_count >= PAYING_SHARE * run_count:
                shortest = run.tokens
        return shortest

    @property
    def usually_pays_from(self) -> int:
        """The tokens of history from which on the agents' default saves, as measured earlier.

        The measurement was of models of the same provider (`base.worth`).
        """
        return pays_from(self.rule, self.model)

    @property
    def _longest_history(self) -> int:
        """The tokens of the longest history of all runs."""
        return max((run.tokens for run in self.runs), default=0)

    @property
    def _has_short_runs(self) -> bool:
        """True if ContextRender usually does not pay for histories as short as these runs'."""
        return bool(self.runs) and self._longest_history < self.usually_pays_from

    @property
    def is_too_uncertain(self) -> bool:
        """True if the runs are short, and the saving may be less than `MIN_SAVING`."""
        highest_cost = self.best.cost.high if self.best else None
        may_save_too_little = highest_cost is not None and highest_cost > 1 - MIN_SAVING
        return self._has_short_runs and may_save_too_little

    @property
    def runs_that_long(self) -> int:
        """The number of runs with at least `pays_from` tokens."""
        start = self.pays_from
        return 0 if start is None else sum(run.tokens >= start for run in self.runs)

    @property
    def sentence(self) -> str:
        """The verdict in words.

        It recommends the best case. Without one, it says that the runs are too short, that the
        default costs about as much as full history, or that no replayed case is good enough.
        """
        cache = RULE_TITLES[self.rule].replace("cache", "prompt cache")
        if self.best is not None:
            return self._saving_sentence(self.best, cache)
        default_option = _default(self.options)
        budgets = [option.case.budget or START_BUDGET for option in self.options]
        fits_all_budgets = self._longest_history <= min(budgets, default=0)
        # Runs are known to be too short for the default settings, with which `usually_pays_from`
        # was measured. They are too short for any settings if every history fits every budget.
        are_certainly_short = default_option is not None or fits_all_budgets
        if self._has_short_runs and are_certainly_short:
            return (
                f"The longest history of these runs is {self._longest_history:,} tokens; under "
                f"{cache}, ContextRender pays from about {self.usually_pays_from:,}. Do not use it "
                "for such runs."
            )
        if default_option is not None and not default_option.rating.saves_enough:
            return (
                f"Full history does as well for these runs: under {cache}, the default would take "
                f"{default_option.cost.value or 0:.1%} of its cost{_refetch_note(default_option)}."
            )
        return (
            f"Full history is best for these runs: under {cache}, no replayed setting saves "
            f"{MIN_SAVING:.0%} of the cost with a miss in at most {MAX_MISS_SHARE:.0%} of the "
            "steps that use earlier results."
        )

    def _saving_sentence(self, best: CaseOutcome, cache: str) -> str:
        """Return the verdict that recommends a case: its saving, its misses, and when it pays.

        It pays from some length of history on, if that is known. `cache` is the provider's cache.
        """
        budget = f"a budget of {best.case.size} tokens" if best.case.budget else "automatic budget"
        misses = "no miss, because no step uses an earlier result"
        if best.miss_rate.value is not None:
            miss_rate = _share_text(best.miss_rate)
            misses = f"a miss in {miss_rate} of the steps that use earlier results"
        confidence = f"Brackets have 95% intervals over {self.tasks} tasks."
        if best.cost.low is None:
            confidence = "One task is too few for an interval."
        sentences = (
            f"{best.case.name} with {budget} would save {_share_text(_complement(best.cost))} of "
            f"the cost under {cache} (${best.dollars:.2f} instead of ${best.full_dollars:.2f} per "
            f"run{_refetch_note(best)}), with {misses}. {confidence}"
        )
        if self.pays_from is None:
            return sentences
        return (
            f"{sentences} It pays from histories of {self.pays_from:,} tokens on, which "
            f"{self.runs_that_long} of {len(self.runs)} runs reach."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return {
            "sentence": self.sentence,
            "best": self.best.to_json() if self.best else None,
            "options": [option.to_json() for option in self.options],
            "rule": self.rule,
            "tasks": self.tasks,
            "runs": len(self.runs),
            "pays_from": self.pays_from,
            "usually_pays_from": self.usually_pays_from,
            "runs_that_long": self.runs_that_long,
        }


def verdict_of(bootstrap: Bootstrap) -> Verdict:
    """Return the verdict on the cases of a replay, under the rule of the runs' provider."""
    scores = bootstrap.runs
    figures_by_case = [
        (case, bootstrap.estimates(index)) for index, case in enumerate(bootstrap.cases)
    ]
    # The model of most runs.
    run_counts = Counter(run.model for run in scores if run.model)
    main_model = max(run_counts, key=lambda name: run_counts[name], default="")
    rule = pricing_rule_of(run.model for run in scores)
    lengths = run_lengths(scores, rule)
    return verdict_on(figures_by_case, rule, bootstrap.tasks, lengths, main_model)


def verdict_on(
    figures_by_case: FiguresByCase,
    rule: str,
    tasks: int,
    runs: Sequence[RunLength] = (),
    model: str = "",
) -> Verdict:
    """Return the verdict on cases, given their figures.

    `recommendation.recommend` chooses the best case, as it does for a stored session. No case is
    best if the runs are too short to be certain. The full history itself is no option.
    """
    options = [
        CaseOutcome.of(case, figures, rule)
        for case, figures in figures_by_case
        if case.policy != "full"
    ]
    best = recommendation.recommend([option.rating for option in options])
    verdict = Verdict(None if best is None else options[best], options, rule, tasks, runs, model)
    return replace(verdict, best=None) if verdict.is_too_uncertain else verdict


def _default(options: Sequence[CaseOutcome]) -> CaseOutcome | None:
    """Return the outcome of the agents' default, if it is among the options and has a cost."""
    defaults = (
        option for option in options if option.rating.is_default and option.cost.value is not None
    )
    return next(defaults, None)


def _refetch_note(option: CaseOutcome) -> str:
    """Return a note if the outcome's cost includes repeated calls; otherwise an empty text."""
    return ", repeated calls included" if option.loop else ""


def _complement(share: Estimate) -> Estimate:
    """Return 1 minus a share. The ends of the interval change places."""
    value, low, high = (
        None if number is None else 1 - number for number in (share.value, share.high, share.low)
    )
    return Estimate(value, low, high)


def _share_text(share: Estimate) -> str:
    """Return a share in percent, with its interval if it has one, such as `13.1% [12.0,15.5]`."""
    if share.value is None:
        return "an unknown share"
    return f"{share.value:.1%} {span(share)}".strip()
