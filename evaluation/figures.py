"""The figures of a case over many runs: recall, tokens and costs (docs/evaluation.md).

Every figure is a quotient of sums over runs, so that it can be computed of any selection of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.lookback.measures import AGE_BINS
from evaluation.billing import RULES
from evaluation.prices import cost_of, price_under
from evaluation.scores import CaseScore, LoopScore, RunScore

Floats = NDArray[np.float64]

INPUT: Final = 2.0
"""The paper's price in dollars for a million prompt tokens."""
CACHED: Final = 0.5
"""The same for prompt tokens the provider has cached."""
OUTPUT: Final = 8.0
EMBEDDED: Final = 0.13

AGES: Final = tuple(label for label, _ in AGE_BINS)


@dataclass(slots=True, frozen=True)
class Sums:
    """Sums over some runs by what is summed: numbers, or arrays of those of several selections."""

    columns: Mapping[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        return self.columns[name]

    def share(self, part: Floats, whole: Floats) -> Floats:
        """A quotient, NaN where there is nothing to divide."""
        quotient: Floats = np.full(np.shape(whole), np.nan)
        np.divide(part, whole, out=quotient, where=np.asarray(whole) > 0)
        return quotient

    def total(self, prefix: str) -> Floats:
        """The sum of the columns of every age."""
        summed: Floats = np.sum([self[f"{prefix} {age}"] for age in AGES], axis=0)
        return summed

    @property
    def cached_fraction(self) -> Floats:
        """The paper's rho: full history's, over runs whose history exceeds the budget."""
        return self.share(self["over full cached"], self["over full prompt"])

    @property
    def paper_cost(self) -> Floats:
        """Dollars by the paper's formula, over runs whose history exceeds the budget."""
        spent = self._input_price * self["over prompt"] + OUTPUT * self["over output"]
        return (spent + EMBEDDED * self["over embedded"]) / 1e6

    @property
    def full_paper_cost(self) -> Floats:
        """The same of full history."""
        spent = self._input_price * self["over full prompt"] + OUTPUT * self["over full output"]
        return spent / 1e6

    @property
    def _input_price(self) -> Floats:
        share = np.nan_to_num(self.cached_fraction)
        return INPUT * (1 - share) + CACHED * share


def columns_of(run: RunScore, score: CaseScore) -> dict[str, float]:
    """What of one run under one case is summed; `over` is only of runs that exceed the budget."""
    recall, sent, own, full = score.recall, score.sent, score.own, run.full
    spent = {
        "prompt": sent.prompt + own.prompt,
        "output": sent.output + own.output,
        "embedded": own.embedded,
        "full prompt": full.prompt,
        "full cached": full.read,
        "full output": full.output,
    }
    over = recall.over_budget > 0
    return {
        **{f"events {age}": count for age, count in recall.events_by_age.items()},
        **{f"visible {age}": count for age, count in recall.visible_by_age.items()},
        "values seen": recall.values_seen,
        "turns": recall.turns,
        "turns with all": recall.turns_with_all_values,
        "calls": recall.invocations,
        "tokens rendered": recall.tokens_rendered,
        "runs": 1,
        "newest": score.newest,
        "newest complete": score.newest_complete,
        **_loop(run, score.loop),
        **{name: cost for rule in RULES for name, cost in _bills(run, score, rule).items()},
        "runs over": over,
        **{f"over {name}": tokens if over else 0 for name, tokens in spent.items()},
    }


def _bills(run: RunScore, score: CaseScore, rule: str) -> dict[str, float]:
    """Dollars for prompts, and with output; the policy's own model calls are never cached."""
    price, mine, full = price_under(rule, run.model), score.bills[rule], run.full_bills[rule]
    own = price.of(score.own)
    return {
        f"{rule} prompts": cost_of(price, mine) + own,
        f"{rule} calls": cost_of(price, mine, score.sent.output) + own,
        f"{rule} full prompts": cost_of(price, full),
        f"{rule} full calls": cost_of(price, full, run.full.output),
    }


def _loop(run: RunScore, loop: LoopScore | None) -> dict[str, float]:
    """Of the closed loop, in counts and dollars; 0 where it was not replayed."""
    replayed = loop or LoopScore()
    found: dict[str, float] = {
        "loop steps": replayed.steps,
        "loop refetched": replayed.refetched,
        "loop without": replayed.without,
    }
    for rule in RULES:
        price = price_under(rule, run.model)
        spent = cost_of(price, replayed.bills[rule], replayed.output) + price.of(replayed.own)
        full = cost_of(price, run.full_bills[rule], run.full.output) if loop else 0.0
        found |= {f"loop {rule} calls": spent, f"loop {rule} full calls": full}
    return found


@dataclass(slots=True, frozen=True)
class Figure:
    """One figure: how it is called, what it is, and whether it is shown as a percentage."""

    name: str
    title: str
    of: Callable[[Sums], Floats]
    percent: bool = True
    more_is_better: bool = True


def _quotient(part: str, whole: str) -> Callable[[Sums], Floats]:
    return lambda sums: sums.share(sums[part], sums[whole])


def _cost(name: str, title: str, of: Callable[[Sums], Floats], *, percent: bool = True) -> Figure:
    return Figure(name, title, of, percent, more_is_better=False)


def _relative(name: str, title: str, part: str, whole: str) -> Figure:
    """A cost as a share of full history's."""
    return _cost(name, f"{title}, of full history's", _quotient(part, whole))


RULE_TITLES: Final = {
    "openai": "OpenAI's cache",
    "anthropic": "Anthropic's cache",
    "anthropic_end": "Anthropic's cache, one breakpoint",
}


def _of_rule(rule: str, title: str) -> Sequence[Figure]:
    """The figures of one provider's rule."""
    calls, loop = f"{rule} calls", f"loop {rule}"
    dollars, own = f"whole bill, {title}, dollars a run", f"{rule} full prompts"
    return (
        _relative(f"{rule}_prompts", f"prompts, {title}", f"{rule} prompts", own),
        _relative(f"{rule}_calls", f"whole bill, {title}", calls, f"{rule} full calls"),
        _cost(f"{rule}_dollars", dollars, _quotient(calls, "runs"), percent=False),
        _relative(f"{rule}_loop", f"closed loop, {title}", f"{loop} calls", f"{loop} full calls"),
    )


FIGURES: Final[Sequence[Figure]] = (
    Figure(
        "result_recall",
        "result recall",
        lambda sums: sums.share(sums.total("visible"), sums.total("events")),
    ),
    *(
        Figure(
            f"result_recall {age}",
            f"result recall, age {age}",
            _quotient(f"visible {age}", f"events {age}"),
        )
        for age in AGES
    ),
    Figure(
        "value_recall",
        "value recall",
        lambda sums: sums.share(sums["values seen"], sums.total("events")),
    ),
    Figure("turns_with_all_values", "turns with all values", _quotient("turns with all", "turns")),
    Figure(
        "newest_complete",
        "newest results complete, calls over budget",
        _quotient("newest complete", "newest"),
    ),
    *(figure for rule, title in RULE_TITLES.items() for figure in _of_rule(rule, title)),
    _cost(
        "refetches",
        "closed loop, calls issued again per 100 steps",
        _quotient("loop refetched", "loop steps"),
    ),
    _cost(
        "steps_without",
        "closed loop, steps that never got what they needed",
        _quotient("loop without", "loop steps"),
    ),
    _cost("tokens_per_call", "tokens a call", _quotient("tokens rendered", "calls"), percent=False),
    _cost(
        "cost_dollars",
        "standardized cost, dollars a run",
        lambda sums: sums.share(sums.paper_cost, sums["runs over"]),
        percent=False,
    ),
    _cost(
        "cost_relative",
        "standardized cost, of full history's",
        lambda sums: sums.share(sums.paper_cost, sums.full_paper_cost),
    ),
)

BY_NAME: Final[Mapping[str, Figure]] = {figure.name: figure for figure in FIGURES}
