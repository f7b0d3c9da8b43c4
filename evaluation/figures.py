"""The figures of a case over many runs: recall, tokens and costs (docs/evaluation.md).

Every figure is a quotient of sums over runs, so that it can be computed of any selection of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evaluation.sums import AGES, Floats, Sums


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


def _bill(rule: str, what: str, title: str) -> Figure:
    def of(sums: Sums) -> Floats:
        return sums.share(sums[f"{rule} {what}"], sums[f"{rule} full {what}"])

    return Figure(f"{rule}_{what}", f"{title}, of full history's", of, more_is_better=False)


def _dollars(rule: str, title: str) -> Figure:
    def of(sums: Sums) -> Floats:
        return sums.share(sums[f"{rule} calls"], sums["runs"])

    return Figure(f"{rule}_dollars", f"{title}, dollars a run", of, False, False)


def _loop_bill(rule: str, title: str) -> Figure:
    def of(sums: Sums) -> Floats:
        return sums.share(sums[f"loop {rule} calls"], sums[f"loop {rule} full calls"])

    return Figure(f"{rule}_loop", f"{title}, of full history's", of, more_is_better=False)


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
    *(_bill(rule, "prompts", f"prompts, {title}") for rule, title in RULE_TITLES.items()),
    *(_bill(rule, "calls", f"whole bill, {title}") for rule, title in RULE_TITLES.items()),
    *(_dollars(rule, f"whole bill, {title}") for rule, title in RULE_TITLES.items()),
    *(_loop_bill(rule, f"closed loop, {title}") for rule, title in RULE_TITLES.items()),
    Figure(
        "refetches",
        "closed loop, calls issued again per 100 steps",
        lambda sums: sums.share(sums["loop refetched"], sums["loop steps"]),
        more_is_better=False,
    ),
    Figure(
        "steps_without",
        "closed loop, steps that never got what they needed",
        lambda sums: sums.share(sums["loop without"], sums["loop steps"]),
        more_is_better=False,
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
