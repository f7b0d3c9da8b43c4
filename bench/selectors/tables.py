"""The tables, as Markdown."""

from collections.abc import Sequence
from typing import Any

from targets import COMPARED, TARGETS, Target

from evaluation import report
from evaluation.bootstrap import Bootstrap, Estimate
from evaluation.cases import Case
from evaluation.compare import Pair, differences
from evaluation.figures import BY_NAME
from evaluation.scores import RunScore, totals
from evaluation.sums import AGES

TARGETED = ("result_recall", "value_recall", "turns_with_all_values", "prompt_cost_10")
COSTS = ("cost_dollars", "cost_relative", "prefix_cost_dollars", "prompt_cost_25", "prompt_cost_10")
TITLES = {
    "result_recall": "result recall",
    "value_recall": "value recall",
    "turns_with_all_values": "turns with all values",
    "cost_dollars": "C, $ a run",
    "cost_relative": "C",
    "prefix_cost_dollars": "true prefix, $ a run",
    "prompt_cost_25": "prompts at 0.25",
    "prompt_cost_10": "prompts at 0.1",
}
LOOP_TITLES = {
    "turns_with_all_values": "turns with all values",
    "newest_complete": "newest complete",
    "openai_prompts": "prompts, OpenAI",
    "anthropic_prompts": "prompts, Anthropic",
    "anthropic_end_prompts": "one breakpoint",
    "openai_loop": "closed loop, OpenAI",
    "anthropic_loop": "closed loop, Anthropic",
    "refetches": "calls again per 100 steps",
    "steps_without": "steps without",
}
PEER_TITLES = {
    "result_recall": "result recall",
    "value_recall": "value recall",
    "turns_with_all_values": "turns with all",
    "newest_complete": "newest complete",
    "openai_prompts": "prompts, OpenAI",
    "anthropic_prompts": "prompts, Anthropic",
    "openai_loop": "closed loop, OpenAI",
    "refetches": "calls again per 100 steps",
    "steps_without": "steps without",
}
WITH_INTERVAL = ("turns_with_all_values", "openai_prompts", "openai_loop", "refetches")
AGES_AT = 6000
WITHIN = 1.0
"""Points that a figure may be off its target."""

Known = dict[Case, dict[str, Estimate]]


def target_table(known: Known) -> str:
    """Each figure with its target in brackets: further off than `WITHIN`, worse is bold."""
    rows = []
    for target in TARGETS:
        case = _case(target, known)
        if case is None:
            continue
        cells = [_beside(name, known[case][name], getattr(target, name)) for name in TARGETED]
        rows.append([f"{case.budget // 1000}K", f"`{case.name}`", *cells])
    return markdown(["B", "policy", *(TITLES[name] for name in TARGETED)], rows)


def peer_table(figures: dict[str, Any]) -> str:
    """What bench/peers measured."""
    titles = ["", *PEER_TITLES.values(), "tokens a call"]
    titles += ["over budget", "with orphans", "task not in full", "ms median", "ms p99"]
    counts = ("over_budget", "with_orphans", "without_task")
    rows = []
    for peer in figures["peers"]:
        if "unavailable" in peer:
            rows.append([peer["name"], f"not measured: {peer['unavailable']}", *[""] * 13])
            continue
        rows.append(
            [
                peer["name"],
                *(f"{100 * (peer[name] or 0):.1f}" for name in PEER_TITLES),
                f"{peer['tokens']:,.0f}",
                *(f"{100 * peer[name]:.0f}%" for name in counts),
                f"{peer['ms_median']:.1f}",
                f"{peer['ms_p99']:.1f}",
            ]
        )
    return markdown(titles, rows)


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _case(target: Target, known: Known) -> Case | None:
    wanted = (target.policy, target.budget)
    return next((case for case in known if (case.name, case.budget) == wanted), None)


def _beside(name: str, estimate: Estimate, target: float | None) -> str:
    value = 100 * (estimate.value or 0.0)
    if target is None:
        return f"{value:.1f}"
    if abs(value - target) <= WITHIN + 0.05:
        return f"{value:.1f} ({target:g})"
    mark = "_" if (value > target) == BY_NAME[name].more_is_better else "**"
    return f"{mark}{value:.1f}{mark} ({target:g})"


def case_table(known: Known, names: Sequence[str]) -> str:
    rows = []
    for case, estimates in _by_budget(known):
        cells = [_with_interval(name, estimates[name]) for name in names]
        rows.append([f"{case.budget // 1000}K", f"`{case.name}`", *cells])
    return markdown(["B", "policy", *(TITLES[name] for name in names)], rows)


def loop_table(known: Known) -> str:
    """What is in view, what providers bill for it, and the same of an agent that reacts."""
    rows = []
    for case, estimates in _by_budget(known):
        cells = [
            (_with_interval if name in WITH_INTERVAL else _plain)(name, estimates[name])
            for name in LOOP_TITLES
        ]
        rows.append([f"{case.budget // 1000}K", f"`{case.name}`", *cells])
    return markdown(["B", "policy", *LOOP_TITLES.values()], rows)


def age_table(known: Known) -> str:
    """Result recall by age, under one budget."""
    rows = []
    for case, estimates in _by_budget(known):
        if case.budget == AGES_AT:
            names = [f"result_recall {age}" for age in AGES]
            cells = [report.shown(BY_NAME[name], estimates[name].value) for name in names]
            rows.append([f"`{case.name}`", *cells])
    return markdown(["policy", *AGES], rows)


def spent_table(scores: Sequence[RunScore]) -> str:
    rows = []
    for total in sorted(totals(scores), key=lambda each: each.case.budget):
        calls = max(total.recall.invocations, 1)
        rows.append(
            [
                f"{total.case.budget // 1000}K",
                f"`{total.case.name}`",
                f"{total.recall.over_budget:,}",
                f"{total.recall.tokens_rendered / calls:,.0f}",
                f"{total.own.embedded / calls:,.0f}",
            ]
        )
    titles = ["calls over B", "tokens a call", "embedded a call"]
    return markdown(["B", "policy", *titles], rows)


def difference_table(bootstrap: Bootstrap, cases: Sequence[Case]) -> str:
    pairs: list[Pair] = []
    for first, second in COMPARED:
        wanted = first if "@" in first else f"{first}@{second.partition('@')[2]}"
        named = {str(case): case for case in cases}
        if wanted in named and second in named:
            pairs.append((named[wanted], named[second]))
    rows: dict[Pair, list[str]] = {}
    for each in differences(bootstrap, cases, pairs):
        if each.figure.name in TARGETED:
            cell = report.shown(each.figure, each.estimate.value, signed=True)
            cell += f" {report.interval(each.figure, each.estimate, signed=True)}"
            rows.setdefault((each.case, each.other), []).append(cell)
    titles = [TITLES[name] for name in TARGETED]
    lines = [[f"`{case}`", f"`{other}`", *cells] for (case, other), cells in rows.items()]
    return markdown(["policy", "less", *titles], lines)


def _by_budget(
    known: Known,
) -> list[tuple[Case, dict[str, Estimate]]]:
    return sorted(known.items(), key=lambda item: item[0].budget)


def _plain(name: str, estimate: Estimate) -> str:
    return report.shown(BY_NAME[name], estimate.value)


def _with_interval(name: str, estimate: Estimate) -> str:
    figure = BY_NAME[name]
    return f"{report.shown(figure, estimate.value)} {report.interval(figure, estimate)}"
