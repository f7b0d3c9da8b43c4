"""What is summed over runs to make figures of: every run a row, every sum a column."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.lookback.measures import AGE_BINS
from evaluation.caches import RULES, Billed
from evaluation.prices import RulePrices, cost_of
from evaluation.scores import CaseScore, LoopScore, RunScore

Floats = NDArray[np.float64]

INPUT: Final = 2.0
"""The paper's price in dollars for a million prompt tokens."""
CACHED: Final = 0.5
"""The same for prompt tokens the provider has cached."""
OUTPUT: Final = 8.0
EMBEDDED: Final = 0.13

LOOP: Final = (
    "steps",
    "refetched",
    "without",
    *(f"{rule} {what}" for rule in RULES for what in ("calls", "full calls")),
)
"""Of the closed loop, in counts and dollars; 0 where it was not replayed."""
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
    "runs",
    "newest",
    "newest complete",
    *(f"loop {what}" for what in LOOP),
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


def sums_of(run: RunScore, score: CaseScore, prices: RulePrices) -> Floats:
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
            1,
            score.newest,
            score.newest_complete,
            *_loop(run, score.loop, prices),
            *(dollars for rule in RULES for dollars in _bills(run, score, rule, prices)),
            over,
            *(value if over else 0 for value in spent),
        ],
        dtype=np.float64,
    )


def _bills(run: RunScore, score: CaseScore, rule: str, prices: RulePrices) -> list[float]:
    """The columns of `BILLS`; the policy's own model calls are part of it, never cached."""
    price, mine, full = prices.of(rule, run.model), score.bills[rule], run.full_bills[rule]
    own = cost_of(price, Billed(plain=score.own.prompt), score.own.output)
    return [
        cost_of(price, mine) + own,
        cost_of(price, mine, score.sent.output) + own,
        cost_of(price, full),
        cost_of(price, full, run.full.output),
    ]


def _loop(run: RunScore, loop: LoopScore | None, prices: RulePrices) -> list[float]:
    """The columns of `LOOP`."""
    if loop is None:
        return [0] * len(LOOP)
    dollars = []
    for rule in RULES:
        price = prices.of(rule, run.model)
        own = cost_of(price, Billed(plain=loop.own.prompt), loop.own.output)
        dollars.append(cost_of(price, loop.bills[rule], loop.output) + own)
        dollars.append(cost_of(price, run.full_bills[rule], run.full.output))
    return [loop.steps, loop.refetched, loop.without, *dollars]
