"""The figures of a case over many runs: recall, tokens and costs (docs/evaluation.md).

Every figure is a quotient of sums over runs, so that it can be computed of any selection of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.replay.recall_measures import AGE_BINS
from contextrender_bridge.evaluation.billing import RULES
from contextrender_bridge.evaluation.prices import cost_of, price_under
from contextrender_bridge.evaluation.scores import CaseScore, LoopScore, RunScore

Floats = NDArray[np.float64]

INPUT: Final = 2.0
"""The paper's price in dollars for a million prompt tokens."""
CACHED: Final = 0.5
"""The same for prompt tokens the provider has cached."""
OUTPUT: Final = 8.0
EMBEDDED: Final = 0.13
PREFIX_SHARES: Final = (0.25, 0.1)
"""What cached tokens cost of the price, in the true-prefix cost."""

AGES: Final = tuple(label for label, _ in AGE_BINS)


Sums = Mapping[str, Floats]
"""Sums over some runs by what is summed: numbers, or arrays of those of several selections."""


def with_derived(sums: Sums) -> Sums:
    """The sums, and what follows from them.

    Those over all ages; dollars over the runs whose history exceeds the budget, by the paper's
    formula and with what really repeats the previous prompt at the cached price; and prompts with
    that at a share of the price, the policy's own model calls at the full one.
    """
    cached = np.nan_to_num(_quotient(sums["over full cached"], sums["over full prompt"]))
    price = INPUT * (1 - cached) + CACHED * cached
    full = price * sums["over full prompt"] + OUTPUT * sums["over full output"]
    rest = OUTPUT * sums["over output"] + EMBEDDED * sums["over embedded"]
    prefix = INPUT * (sums["over prompt"] - sums["over cached"]) + CACHED * sums["over cached"]
    shares: dict[str, Floats] = {}
    for share in PREFIX_SHARES:
        less = 1 - share
        shares[f"prompt at {share}"] = sums["prompt"] - less * sums["cached"] + sums["own"]
        shares[f"full at {share}"] = sums["full prompt"] - less * sums["full cached"]
    return {
        **sums,
        **shares,
        "events": np.sum([sums[f"events {age}"] for age in AGES], axis=0),
        "visible": np.sum([sums[f"visible {age}"] for age in AGES], axis=0),
        "paper": (price * sums["over prompt"] + rest) / 1e6,
        "prefix": (prefix + rest) / 1e6,
        "full paper": full / 1e6,
    }


def _quotient(part: Floats, whole: Floats) -> Floats:
    """NaN where there is nothing to divide."""
    quotient: Floats = np.full(np.shape(whole), np.nan)
    np.divide(part, whole, out=quotient, where=np.asarray(whole) > 0)
    return quotient


def columns_of(run: RunScore, score: CaseScore) -> dict[str, float]:
    """What of one run under one case is summed; `over` is only of runs that exceed the budget."""
    recall, sent, own, full = score.recall, score.sent, score.own, run.full
    spent = {
        "prompt": sent.prompt + own.prompt,
        "cached": sent.read + own.read,
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
        "prompt": sent.prompt,
        "cached": sent.read,
        "own": own.prompt + OUTPUT / INPUT * own.output,
        "full prompt": full.prompt,
        "full cached": full.read,
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
    """One figure: a quotient of two sums, and whether it is shown as a percentage."""

    name: str
    title: str
    part: str
    whole: str
    percent: bool = True
    more_is_better: bool = False

    def of(self, sums: Sums) -> Floats:
        """The figure of these sums, `with_derived`; NaN where there is nothing to divide."""
        return _quotient(sums[self.part], sums[self.whole])


def _seen(name: str, title: str, part: str, whole: str) -> Figure:
    return Figure(name, title, part, whole, more_is_better=True)


RULE_TITLES: Final = {
    "openai": "OpenAI's cache",
    "anthropic": "Anthropic's cache",
    "anthropic_end": "Anthropic's cache, one breakpoint",
}


def _of_rule(rule: str, title: str) -> Sequence[Figure]:
    """The figures of one provider's rule; shares are of full history's."""
    of_full, calls, loop = "of full history's", f"{rule} calls", f"loop {rule}"
    bill = f"whole bill, {title}"
    return (
        Figure(
            f"{rule}_prompts",
            f"prompts, {title}, {of_full}",
            f"{rule} prompts",
            f"{rule} full prompts",
        ),
        Figure(f"{rule}_calls", f"{bill}, {of_full}", calls, f"{rule} full calls"),
        Figure(f"{rule}_dollars", f"{bill}, dollars a run", calls, "runs", percent=False),
        Figure(
            f"{rule}_loop",
            f"closed loop, {title}, {of_full}",
            f"{loop} calls",
            f"{loop} full calls",
        ),
    )


RECALL: Final = "result recall"
COMPLETE: Final = "newest results complete, calls over budget"
AGAIN: Final = "closed loop, calls issued again per 100 steps"
WITHOUT: Final = "closed loop, steps that never got what they needed"
PAPERS: Final = "standardized cost"
PREFIX: Final = "true-prefix cost"
FIGURES: Final[Sequence[Figure]] = (
    _seen("result_recall", RECALL, "visible", "events"),
    *(
        _seen(f"result_recall {age}", f"{RECALL}, age {age}", f"visible {age}", f"events {age}")
        for age in AGES
    ),
    _seen("value_recall", "value recall", "values seen", "events"),
    _seen("turns_with_all_values", "turns with all values", "turns with all", "turns"),
    _seen("newest_complete", COMPLETE, "newest complete", "newest"),
    *(figure for rule, title in RULE_TITLES.items() for figure in _of_rule(rule, title)),
    Figure("refetches", AGAIN, "loop refetched", "loop steps"),
    Figure("steps_without", WITHOUT, "loop without", "loop steps"),
    Figure("tokens_per_call", "tokens a call", "tokens rendered", "calls", percent=False),
    Figure("cost_dollars", f"{PAPERS}, dollars a run", "paper", "runs over", percent=False),
    Figure("cost_relative", f"{PAPERS}, of full history's", "paper", "full paper"),
    Figure("prefix_cost_dollars", f"{PREFIX}, dollars a run", "prefix", "runs over", percent=False),
    *(
        Figure(
            f"prompt_cost_{share:.0%}".rstrip("%"),
            f"{PREFIX}, prompts with cached tokens at {share}, of full history's",
            f"prompt at {share}",
            f"full at {share}",
        )
        for share in PREFIX_SHARES
    ),
)

BY_NAME: Final[Mapping[str, Figure]] = {figure.name: figure for figure in FIGURES}
