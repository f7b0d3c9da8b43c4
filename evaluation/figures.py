"""The figures of a case over many runs: recall, tokens and costs (docs/evaluation.md).

Every figure is a quotient of sums over runs, so that it can be computed of any selection of them:
`Sums` holds one row a selection.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evaluation.caches import RULES, Billed
from evaluation.prices import Prices
from evaluation.scores import CaseScore, RunScore
from engine.costs import CACHED, EMBEDDED, INPUT, OUTPUT
from engine.lookback.measures import AGE_BINS

Floats = NDArray[np.float64]

AGES: Final = tuple(label for label, _ in AGE_BINS)
BILLS: Final = ("prompts", "calls", "full prompts", "full calls")
"""Dollars for prompts, and for prompts and output: the policy's, and full history's."""
COLUMNS: Final = (
    *(f"events {age}" for age in AGES),
    *(f"visible {age}" for age in AGES),
    "values seen",
    "turns",
    "turns with all",
    "calls",
    "tokens full",
    "tokens rendered",
    "prompt",
    "cached",
    "full prompt",
    "full cached",
    "own",
    "newest",
    "newest complete",
    *(f"{rule} {what}" for rule in RULES for what in BILLS),
    "runs over",
    "over prompt",
    "over cached",
    "over output",
    "over embedded",
    "over full prompt",
    "over full cached",
    "over full output",
)
"""What is summed over runs; those with `over` only over runs whose history exceeds the budget."""

_AT: Final = {name: index for index, name in enumerate(COLUMNS)}


@dataclass(slots=True, frozen=True)
class Sums:
    """Sums over some runs, or rows of such sums: `values` has the columns last."""

    values: Floats

    def __getitem__(self, column: str) -> Floats:
        """One column's sums."""
        taken: Floats = self.values[..., _AT[column]]
        return taken

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
    def true_cost(self) -> Floats:
        """Dollars with what really repeats the previous prompt at the cached price."""
        spent = INPUT * (self["over prompt"] - self["over cached"]) + CACHED * self["over cached"]
        spent = spent + OUTPUT * self["over output"] + EMBEDDED * self["over embedded"]
        return spent / 1e6

    def bill(self, rule: str, what: str) -> Floats:
        """Dollars by a provider's rule relative to full history's: for `prompts` or `calls`."""
        return self.share(self[f"{rule} {what}"], self[f"{rule} full {what}"])

    def prompt_cost(self, cached_price: float) -> Floats:
        """What prompts cost relative to full history's, cached tokens at a share of the price.

        The policy's own model calls are part of it, at the full price.
        """
        discount = 1 - cached_price
        mine = self["prompt"] - discount * self["cached"] + self["own"]
        return self.share(mine, self["full prompt"] - discount * self["full cached"])

    @property
    def _input_price(self) -> Floats:
        share = np.nan_to_num(self.cached_fraction)
        return INPUT * (1 - share) + CACHED * share


def sums_of(run: RunScore, score: CaseScore, prices: Prices) -> Floats:
    """One run's sums under one case, as columns."""
    recall, over = score.recall, score.recall.over_budget > 0
    sent, own, full = score.sent, score.own, run.full
    spent = [
        sent.prompt + own.prompt,
        sent.cached + own.cached,
        sent.output + own.output,
        own.embedded,
        full.prompt,
        full.cached,
        full.output,
    ]
    return np.array(
        [
            *recall.events_by_age.values(),
            *recall.visible_by_age.values(),
            recall.values_seen,
            recall.turns,
            recall.turns_with_all_values,
            recall.invocations,
            recall.tokens_full,
            recall.tokens_rendered,
            sent.prompt,
            sent.cached,
            full.prompt,
            full.cached,
            own.prompt + OUTPUT / INPUT * own.output,
            score.newest,
            score.newest_complete,
            *(dollars for rule in RULES for dollars in _bills(run, score, rule, prices)),
            over,
            *(value if over else 0 for value in spent),
        ],
        dtype=np.float64,
    )


def _bills(run: RunScore, score: CaseScore, rule: str, prices: Prices) -> list[float]:
    """The columns of `BILLS`; the policy's own model calls are part of it, never cached."""
    price, mine, full = prices.of(rule, run.model), score.bills[rule], run.full_bills[rule]
    own = price.calls(Billed(plain=score.own.prompt), score.own.output)
    return [
        price.prompts(mine) + own,
        price.calls(mine, score.sent.output) + own,
        price.prompts(full),
        price.calls(full, run.full.output),
    ]


@dataclass(slots=True, frozen=True)
class Figure:
    """One figure: how it is called, what it is, and whether it is shown as a percentage."""

    name: str
    title: str
    of: Callable[[Sums], Floats]
    percent: bool = True
    more_is_better: bool = True


def _recall_at(age: str) -> Callable[[Sums], Floats]:
    return lambda sums: sums.share(sums[f"visible {age}"], sums[f"events {age}"])


def _bill(rule: str, what: str) -> Callable[[Sums], Floats]:
    return lambda sums: sums.bill(rule, what)


RULE_TITLES: Final = {
    "openai": "OpenAI's cache",
    "anthropic": "Anthropic's cache",
    "anthropic_end": "Anthropic's cache, one breakpoint",
}

FIGURES: Final[Sequence[Figure]] = (
    Figure(
        "result_recall",
        "result recall",
        lambda sums: sums.share(sums.total("visible"), sums.total("events")),
    ),
    *(Figure(f"result_recall {age}", f"result recall, age {age}", _recall_at(age)) for age in AGES),
    Figure(
        "value_recall",
        "value recall",
        lambda sums: sums.share(sums["values seen"], sums.total("events")),
    ),
    Figure(
        "turns_with_all_values",
        "turns with all values",
        lambda sums: sums.share(sums["turns with all"], sums["turns"]),
    ),
    Figure(
        "newest_complete",
        "newest results complete, calls over budget",
        lambda sums: sums.share(sums["newest complete"], sums["newest"]),
    ),
    *(
        Figure(f"{rule}_prompts", f"prompts, {title}, of full history's", _bill(rule, "prompts"), more_is_better=False)
        for rule, title in RULE_TITLES.items()
    ),
    *(
        Figure(f"{rule}_calls", f"whole bill, {title}, of full history's", _bill(rule, "calls"), more_is_better=False)
        for rule, title in RULE_TITLES.items()
    ),
    Figure(
        "tokens_per_call",
        "tokens a call",
        lambda sums: sums.share(sums["tokens rendered"], sums["calls"]),
        percent=False,
        more_is_better=False,
    ),
    Figure(
        "cost_dollars",
        "standardized cost, dollars a run",
        lambda sums: sums.share(sums.paper_cost, sums["runs over"]),
        percent=False,
        more_is_better=False,
    ),
    Figure(
        "cost_relative",
        "standardized cost, of full history's",
        lambda sums: sums.share(sums.paper_cost, sums.full_paper_cost),
        more_is_better=False,
    ),
    Figure(
        "prefix_cost_dollars",
        "true-prefix cost, dollars a run",
        lambda sums: sums.share(sums.true_cost, sums["runs over"]),
        percent=False,
        more_is_better=False,
    ),
    Figure(
        "prompt_cost_25",
        "prompt cost, cached tokens at 0.25, of full history's",
        lambda sums: sums.prompt_cost(0.25),
        more_is_better=False,
    ),
    Figure(
        "prompt_cost_10",
        "prompt cost, cached tokens at 0.1, of full history's",
        lambda sums: sums.prompt_cost(0.1),
        more_is_better=False,
    ),
)

BY_NAME: Final[Mapping[str, Figure]] = {figure.name: figure for figure in FIGURES}
