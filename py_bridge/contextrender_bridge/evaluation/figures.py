"""The figures of a case over many runs: recall, tokens and costs (docs/evaluation.md).

Every figure is a quotient of sums over runs, so it can be computed for any selection of runs.
Long because it has the columns, their sums and the figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.replay.recall_measures import AGE_BINS
from contextrender_bridge.evaluation.billing import RULES, cost_of, price_under
from contextrender_bridge.evaluation.scores import CaseScore, LoopScore, RunScore

Floats = NDArray[np.float64]

INPUT: Final = 2.0
"""The paper's price in dollars per million prompt tokens."""
CACHED: Final = 0.5
"""The paper's price in dollars per million cached prompt tokens."""
OUTPUT: Final = 8.0
EMBEDDING: Final = 0.13
TOKENS_PER_PRICE: Final = 1e6
"""Prices are for this many tokens."""
PREFIX_SHARES: Final = (0.25, 0.1)
"""The price of cached tokens as a share of the full price, in the true-prefix cost."""

AGES: Final = tuple(label for label, _ in AGE_BINS)

Sums = Mapping[str, Floats]
"""Sums over runs, by the name of the summed column. Arrays have the sums of several selections."""
RULE_TITLES: Final = {
    "openai": "OpenAI's cache",
    "anthropic": "Anthropic's cache",
    "anthropic_end": "Anthropic's cache, one breakpoint",
}
RECALL: Final = "result recall"
COMPLETE: Final = "newest results complete, calls over budget"
REFETCHES: Final = "closed loop, repeated calls per 100 steps"
STEPS_WITH_MISSES: Final = "closed loop, steps with a miss"
PAPER_COST: Final = "standardized cost"
PREFIX_COST: Final = "true-prefix cost"


def with_derived(sums: Sums) -> Sums:
    """Return the sums and the values derived from them (docs/evaluation.md has the formulas).

    The paper's cost and the true-prefix cost use the columns that begin with `over`. These have
    only the runs whose history exceeds the budget, and include the policy's own model calls.
    """
    # The paper's cost assumes one share of cached tokens for all prompts: the full history's.
    cached_share = np.nan_to_num(_quotient(sums["over full cached"], sums["over full prompt"]))
    prompt_price = INPUT * (1 - cached_share) + CACHED * cached_share
    full_cost = prompt_price * sums["over full prompt"] + OUTPUT * sums["over full output"]
    other_cost = OUTPUT * sums["over output"] + EMBEDDING * sums["over embedded"]
    paper_cost = prompt_price * sums["over prompt"] + other_cost

    # The true-prefix cost assumes that only tokens that repeat the previous prompt are cached.
    uncached = sums["over prompt"] - sums["over cached"]
    prefix_cost = INPUT * uncached + CACHED * sums["over cached"] + other_cost

    # Prompt tokens of all runs. A token that repeats the previous prompt is cached, and counts as
    # `share`. With the full history, no policy makes model calls of its own.
    discounted: dict[str, Floats] = {}
    for share in PREFIX_SHARES:
        agent_tokens = sums["prompt"] - (1 - share) * sums["cached"]
        full_tokens = sums["full prompt"] - (1 - share) * sums["full cached"]
        discounted[f"prompt at {share}"] = agent_tokens + sums["policy tokens"]
        discounted[f"full at {share}"] = full_tokens
    return {
        **sums,
        **discounted,
        "events": np.sum([sums[f"events {age}"] for age in AGES], axis=0),
        "visible": np.sum([sums[f"visible {age}"] for age in AGES], axis=0),
        "paper": paper_cost / TOKENS_PER_PRICE,
        "prefix": prefix_cost / TOKENS_PER_PRICE,
        "full paper": full_cost / TOKENS_PER_PRICE,
    }


def _quotient(numerator: Floats, denominator: Floats) -> Floats:
    """Return the quotient; NaN if the denominator is zero."""
    quotient: Floats = np.full(np.shape(denominator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=np.asarray(denominator) > 0)
    return quotient


def columns_of(run: RunScore, score: CaseScore) -> dict[str, float]:
    """Return the columns of one run under one case, to be summed over runs.

    Most columns are fields of `RecallScore`, `CaseScore` and `LoopScore`, which explain them. The
    columns that begin with `full` are of `RunScore`, with the full history. Each billing rule
    (`billing.RULES`) has columns in dollars.
    """
    recall, usage, policy_usage = score.recall, score.agent_usage, score.policy_usage
    bill_columns: dict[str, float] = {}
    for rule in RULES:
        bill_columns |= _bill_columns(run, score, rule)
    return {
        **{f"events {age}": count for age, count in recall.events_by_age.items()},
        **{f"visible {age}": count for age, count in recall.visible_by_age.items()},
        "visible value shares": recall.visible_value_shares,
        "turns": recall.turns,
        "turns with all": recall.turns_with_all_values,
        "calls": recall.invocations,
        "tokens rendered": recall.tokens_rendered,
        "prompt": usage.prompt,
        "cached": usage.cache_read,
        # The tokens of the policy's own calls. One output token costs as much as several prompt
        # tokens, and counts as that many.
        "policy tokens": policy_usage.prompt + OUTPUT / INPUT * policy_usage.output,
        "full prompt": run.full.prompt,
        "full cached": run.full.cache_read,
        "runs": 1,
        "newest": score.newest,
        "newest complete": score.newest_complete,
        **_loop_columns(run, score.loop),
        **bill_columns,
        **_over_budget_columns(run, score),
    }


def _over_budget_columns(run: RunScore, score: CaseScore) -> dict[str, float]:
    """Return the columns of one run from which the paper's costs are computed: tokens.

    They include the policy's own calls. The paper's costs count only runs whose history exceeds the
    budget, so all of these columns are zero for any other run.
    """
    full, usage, policy_usage = run.full, score.agent_usage, score.policy_usage
    columns: dict[str, float] = {
        "over prompt": usage.prompt + policy_usage.prompt,
        "over cached": usage.cache_read + policy_usage.cache_read,
        "over output": usage.output + policy_usage.output,
        "over embedded": policy_usage.embedded,
        "over full prompt": full.prompt,
        "over full cached": full.cache_read,
        "over full output": full.output,
    }
    # `over_budget` counts the calls whose history exceeds the budget.
    exceeds_budget = score.recall.over_budget > 0
    return {
        "runs over": exceeds_budget,
        **(columns if exceeds_budget else dict.fromkeys(columns, 0)),
    }


def _bill_columns(run: RunScore, score: CaseScore, rule: str) -> dict[str, float]:
    """Return a run's dollars under one billing rule: with the policy, and with the full history.

    A `prompt cost` is for the prompts, and a `cost` is the whole bill, for prompts and answers. The
    policy's own model calls are included, and billed as uncached.
    """
    price, bill, full = price_under(rule, run.model), score.bills[rule], run.full_bills[rule]
    policy_cost = price.of(score.policy_usage)
    return {
        f"{rule} prompt cost": cost_of(price, bill) + policy_cost,
        f"{rule} cost": cost_of(price, bill, score.agent_usage.output) + policy_cost,
        f"{rule} full prompt cost": cost_of(price, full),
        f"{rule} full cost": cost_of(price, full, run.full.output),
    }


def _loop_columns(run: RunScore, loop: LoopScore | None) -> dict[str, float]:
    """Return the columns of one run's closed loop: counts and dollars. Zeros if not replayed.

    In a closed loop, the agent repeats the calls whose results it misses. `loop refetched` counts
    these calls. `loop without` counts the steps that still missed a result after these calls. A
    `cost` is the dollars for prompts and answers, of the agent and of the policy's own model calls.
    """
    loop_score = loop or LoopScore()
    columns: dict[str, float] = {
        "loop steps": loop_score.steps,
        "loop refetched": loop_score.refetched,
        "loop without": loop_score.steps_with_misses,
    }
    for billing_rule in RULES:
        price = price_under(billing_rule, run.model)
        agent_cost = cost_of(price, loop_score.bills[billing_rule], loop_score.output)
        # A run without a loop must not count in the full history's cost, either.
        full_cost = cost_of(price, run.full_bills[billing_rule], run.full.output) if loop else 0.0
        columns[f"loop {billing_rule} cost"] = agent_cost + price.of(loop_score.policy_usage)
        columns[f"loop {billing_rule} full cost"] = full_cost
    return columns


@dataclass(slots=True, frozen=True)
class Figure:
    """A figure: the sum of one column divided by the sum of another one.

    It is shown as a percentage if `percent` is set.
    """

    name: str
    title: str
    numerator: str
    denominator: str
    percent: bool = True
    more_is_better: bool = False

    def of(self, sums: Sums) -> Floats:
        """Return the figure, given the sums that `with_derived` returns.

        It is NaN where the sum of the denominator is zero.
        """
        return _quotient(sums[self.numerator], sums[self.denominator])


_recall_figure = partial(Figure, more_is_better=True)


def _rule_figures(rule: str, title: str) -> Sequence[Figure]:
    """Return the figures of one billing rule: the costs of prompts, of calls and of a closed loop.

    The cost of calls is the whole bill, for prompts and answers. In a closed loop, the agent
    repeats the calls whose results it misses. `title` is the rule's title, which the figures'
    titles include.
    """

    def share(name: str, cost: str, column: str, full_column: str) -> Figure:
        """Return a cost as a share of the full history's cost."""
        full_title = f"{cost}, {title}, of full history's"
        return Figure(f"{rule}_{name}", full_title, numerator=column, denominator=full_column)

    return (
        share("prompts", "prompts", f"{rule} prompt cost", f"{rule} full prompt cost"),
        share("calls", "whole bill", f"{rule} cost", f"{rule} full cost"),
        Figure(
            f"{rule}_dollars",
            f"whole bill, {title}, dollars per run",
            numerator=f"{rule} cost",
            denominator="runs",
            percent=False,
        ),
        share("loop", "closed loop", f"loop {rule} cost", f"loop {rule} full cost"),
    )


FIGURES: Final[Sequence[Figure]] = (
    _recall_figure("result_recall", RECALL, "visible", "events"),
    *(
        _recall_figure(
            f"result_recall {age}", f"{RECALL}, age {age}", f"visible {age}", f"events {age}"
        )
        for age in AGES
    ),
    _recall_figure("value_recall", "value recall", "visible value shares", "events"),
    _recall_figure("turns_with_all_values", "turns with all values", "turns with all", "turns"),
    _recall_figure("newest_complete", COMPLETE, "newest complete", "newest"),
    *(figure for rule, title in RULE_TITLES.items() for figure in _rule_figures(rule, title)),
    Figure("refetches", REFETCHES, "loop refetched", "loop steps"),
    Figure("steps_without", STEPS_WITH_MISSES, "loop without", "loop steps"),
    Figure("tokens_per_call", "tokens per call", "tokens rendered", "calls", percent=False),
    Figure("cost_dollars", f"{PAPER_COST}, dollars per run", "paper", "runs over", percent=False),
    Figure("cost_relative", f"{PAPER_COST}, of full history's", "paper", "full paper"),
    Figure(
        "prefix_cost_dollars",
        f"{PREFIX_COST}, dollars per run",
        "prefix",
        "runs over",
        percent=False,
    ),
    *(
        Figure(
            f"prompt_cost_{share:.0%}".rstrip("%"),
            f"{PREFIX_COST}, prompts with cached tokens at {share}, of full history's",
            f"prompt at {share}",
            f"full at {share}",
        )
        for share in PREFIX_SHARES
    ),
)

BY_NAME: Final[Mapping[str, Figure]] = {figure.name: figure for figure in FIGURES}
