"""What a replay prints."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, Literal

from rich import box
from rich.console import Console
from rich.table import Table

from evaluation.bootstrap import Bootstrap, Difference, Estimate
from evaluation.compactions import CompactionScore, within
from evaluation.figures import AGES, BY_NAME, Figure
from evaluation.scores import CaseScore, RunScore, totals

PLAIN_WIDTH = 136

Estimates = Mapping[str, Estimate]

TABLES: Final = (
    (
        "What later steps used that was in view, % (Later-Used Recall; ages in turns)",
        (
            *("results", "", *(f"age\n{age}" for age in AGES)),
            *("values", "", "turns\nwith all", "", "newest\ncomplete"),
        ),
        (
            *("result_recall", *(f"result_recall {age}" for age in AGES)),
            *("value_recall", "turns_with_all_values", "newest_complete"),
        ),
        ("result_recall", "value_recall", "turns_with_all_values"),
    ),
    (
        "What it cost, % of full history's: the paper's C, and prompts as providers bill them",
        (
            *("C", "", "OpenAI's\ncache", "", "Anthropic's\ncache", ""),
            *("one\nbreakpoint", "C, dollars\na run"),
        ),
        (
            *("cost_relative", "openai_prompts", "anthropic_prompts"),
            *("anthropic_end_prompts", "cost_dollars"),
        ),
        ("cost_relative", "openai_prompts", "anthropic_prompts"),
    ),
    (
        "Closed loop: prompts and output, % of full history's; per 100 steps",
        (
            *("OpenAI's\ncache", "", "Anthropic's\ncache", ""),
            *("one\nbreakpoint", "calls\nagain", "", "steps\nwithout"),
        ),
        ("openai_loop", "anthropic_loop", "anthropic_end_loop", "refetches", "steps_without"),
        ("openai_loop", "anthropic_loop", "refetches"),
    ),
)
"""Title, columns, figures, and those of them with an interval; the last is of closed loops."""


def console() -> Console:
    """Stdout, wide enough for the tables where it is no terminal."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def table(title: str, *columns: str, left: int = 1, folds: str = "") -> Table:
    """An empty table; its first `left` columns hold names, of which `folds` may fold, the others
    figures.
    """
    made = Table(
        title=title or None,
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
        title_style="bold",
    )
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if index < left else "right"
        made.add_column(column, justify=justify, no_wrap=column != folds, overflow="fold")
    return made


def percent(share: float | None) -> str:
    """A share as a percentage; a dash where there is none."""
    return "-" if share is None else f"{share:.1%}"


def shown(figure: Figure, value: float | None, signed: bool = False) -> str:
    """A figure as it is printed."""
    if value is None:
        return "-"
    sign = "+" if signed else ""
    if figure.percent:
        return f"{100 * value:{sign}.1f}"
    return f"{value:{sign}.3f}" if "dollars" in figure.name else f"{value:{sign},.0f}"


def interval(figure: Figure, estimate: Estimate, signed: bool = False) -> str:
    """The estimate's interval as it is printed."""
    if estimate.low is None:
        return ""
    low, high = (shown(figure, end, signed) for end in (estimate.low, estimate.high))
    return f"[{low},{high}]"


def tables(
    runs: Sequence[RunScore], bootstrap: Bootstrap, differences: Iterable[Difference] = ()
) -> list[Table]:
    """What was sent, what was in view, what it cost, and the comparisons asked for."""
    sums = totals(runs)
    estimates = [bootstrap.estimates(index) for index in range(len(sums))]
    made = [_sent_table(sums)]
    for title, columns, names, wide in TABLES[: 3 if any(total.loop for total in sums) else 2]:
        made.append(_figures_table(title, columns, names, wide, sums, estimates))
    for (case, other), group in groupby(differences, key=lambda each: (each.case, each.other)):
        made.append(_difference_table(f"{case} less {other}, paired by task", list(group)))
    return made


def compaction_table(score: CompactionScore) -> Table:
    """What agents' own compactions lost, and what would have been shown of it."""
    head = "of steps that used what was before", "of those values"
    many = "compaction" if score.count == 1 else "compactions"
    made = table(f"After {score.count} {many} by the agent: {score.steps} steps", "", *head)
    rows = {"in the agent's summary": score.summary, "and what it read again": score.again}
    rows |= {
        f"shown {within(name)}, nothing read again": each for name, each in score.shown.items()
    }
    for name, seen in rows.items():
        made.add_row(name, percent(score.share(seen)), percent(score.share_of_values(seen)))
    return made


def notes(runs: Sequence[RunScore], bootstrap: Bootstrap) -> str:
    """What one must know to read the tables."""
    first = totals(runs)[0]
    calls = max(first.recall.invocations, 1)
    lines = [
        f"Runs: {len(runs)}. Tasks: {bootstrap.tasks}. Tokens are those the budget limits: system\n"
        f"prompts and current user messages add {first.tokens_outside:,} to both counts.",
        "In brackets: 95% of resamplings of the tasks. docs/evaluation.md defines every figure.",
    ]
    recording = sum(run.recording for run in runs)
    embedding = sum(run.embedding for run in runs)
    lines.append(
        f"Recording took {1000 * recording / calls:.1f} ms a call and embedding "
        f"{1000 * embedding / calls:.1f} ms, once for all policies, on top of ms/call.\n"
        "What else policies share is in ms/call of the first that needs it."
    )
    lines += [
        f"{total.case} had no model at {total.warned:,} calls: its figures say little."
        for total in totals(runs)
        if total.warned
    ]
    return "\n".join(lines)


def sent(total: CaseScore) -> list[str]:
    """A case's calls, and the tokens of its histories and prompts."""
    recall = total.recall
    counts = (recall.invocations, recall.over_budget, recall.tokens_full, recall.tokens_rendered)
    own = [total.case.name, total.case.size]
    return [*own, *(f"{count:,}" for count in counts), percent(total.share_saved)]


def _sent_table(sums: Sequence[CaseScore]) -> Table:
    made = table(
        "What was sent",
        *("policy", "budget", "calls", "over\nbudget", "tokens\nfull", "tokens\nrendered"),
        *("saved", "policy's\nmodel", "embedded", "ms/call"),
        folds="policy",
    )
    for total in sums:
        own, calls = total.own, max(total.recall.invocations, 1)
        more = (f"{own.prompt + own.output:,}", f"{own.embedded:,}")
        made.add_row(*sent(total), *more, f"{1000 * total.seconds / calls:.1f}")
    return made


def _figures_table(
    title: str,
    columns: Sequence[str],
    names: Sequence[str],
    wide: Sequence[str],
    sums: Sequence[CaseScore],
    estimates: Sequence[Estimates],
) -> Table:
    """A row a case with these figures, the `wide` ones with their intervals."""
    made = table(title, "policy", "budget", *columns, folds="policy")
    for total, known in zip(sums, estimates, strict=True):
        made.add_row(total.case.name, total.case.size, *_cells(known, names, wide))
    return made


def _difference_table(title: str, found: Sequence[Difference]) -> Table:
    made = table(title, "figure", "difference", "", "", left=1)
    for each in found:
        made.add_row(*differs(each))
    return made


def differs(found: Difference) -> tuple[str, str, str, str]:
    """A figure, by how much it differs, in what interval, and whether that is better or worse."""
    figure, estimate = found.figure, found.estimate
    by, within = shown(figure, estimate.value, True), interval(figure, estimate, True)
    return figure.title, by, within, found.verdict


def _cells(known: Estimates, names: Sequence[str], wide: Sequence[str]) -> list[str]:
    """Values, and the intervals of the `wide` ones."""
    cells: list[str] = []
    for figure in (BY_NAME[name] for name in names):
        cells.append(shown(figure, known[figure.name].value))
        if figure.name in wide:
            cells.append(interval(figure, known[figure.name]))
    return cells
