"""The whole report as one HTML page that opens offline: nothing in it refers to another file."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Final

from evaluation.billing import RULES
from evaluation.bootstrap import Bootstrap, Difference, Estimate
from evaluation.figures import AGES, BY_NAME, FIGURES
from evaluation.plots import Plot
from evaluation.report import differs, interval, sent, shown
from evaluation.scores import RunScore, totals
from evaluation.verdict import Verdict

STYLE: Final = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
.verdict { font-size: 1.15rem; max-width: 60rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #e3e6ea; }
th:first-child, td:first-child { text-align: left; }
th { vertical-align: bottom; background: #f6f8fa; }
tr.first td { border-top: 2px solid #b8c0c8; }
small { color: #57606a; white-space: nowrap; display: block; }
figure { margin: 1.5rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #57606a; }
pre { background: #f6f8fa; padding: .7rem; overflow-x: auto; }
.better { color: #116329; } .worse { color: #a40e26; }
"""

HOW_TO_READ: Final = (
    "In brackets: 95% of resamplings of the tasks. Two intervals may overlap and the difference "
    "still be sure: the comparisons are paired. A replay measures what was in view, not whether "
    "tasks are solved. docs/evaluation.md defines every figure."
)

IN_VIEW: Final = (
    "result_recall",
    *(f"result_recall {age}" for age in AGES),
    "value_recall",
    "turns_with_all_values",
    "newest_complete",
)
BILLED: Final = tuple(
    f"{rule}_{what}" for what in ("prompts", "calls", "dollars") for rule in RULES
)
SPENT: Final = (
    "tokens_per_call",
    "cost_dollars",
    "cost_relative",
    "prefix_cost_dollars",
    "prompt_cost_25",
    "prompt_cost_10",
)
LOOP: Final = (*(f"{rule}_loop" for rule in RULES), "refetches", "steps_without")


def page(
    runs: Sequence[RunScore],
    bootstrap: Bootstrap,
    differences: Iterable[Difference],
    plots: Sequence[Plot],
    command: str,
    verdict: Verdict,
) -> str:
    """The report: the verdict in a sentence, a curve of cost against what is in view, tables."""
    curve, *others = plots
    sums = totals(runs)
    calls = sums[0].recall.invocations
    parts = [
        "<h1>What each policy showed, and what it cost</h1>",
        f'<p class="verdict">{escape(verdict.sentence)}</p>',
        _plot(curve),
        f"<p>Recorded runs: {len(runs):,}. Tasks: {bootstrap.tasks:,}. Model calls: {calls:,}. "
        f"Replayed {datetime.now(UTC):%Y-%m-%d}.</p>",
        _heading("What was in view, in %"),
        _figures(runs, bootstrap, IN_VIEW),
        _heading("What providers would bill, in %, but for dollars"),
        _figures(runs, bootstrap, BILLED),
        *_loop(runs, bootstrap),
        _heading("The paper's cost, and what prompts repeat: in %, but for tokens and dollars"),
        _figures(runs, bootstrap, SPENT),
        _heading("What was sent, in tokens"),
        _sent(runs),
        *_differences(differences),
        _heading("Plots"),
        *map(_plot, others),
        _heading("How to read this"),
        f"<p>{escape(HOW_TO_READ)}</p>",
        _heading("How to make this"),
        f"<pre>{escape(command)}</pre>",
    ]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>ContextRender evaluation</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _plot(plot: Plot) -> str:
    return f"<figure>{plot.inline_svg()}<figcaption>{escape(plot.caption)}</figcaption></figure>"


def _heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def _figures(runs: Sequence[RunScore], bootstrap: Bootstrap, names: Sequence[str]) -> str:
    titles = [BY_NAME[name].title for name in names]
    rows = []
    for index, total in enumerate(totals(runs)):
        known = bootstrap.estimates(index)
        cells = [_cell(name, known[name]) for name in names]
        rows.append([escape(total.case.name), total.case.size, *cells])
    return _table(["policy", "budget", *titles], rows)


def _loop(runs: Sequence[RunScore], bootstrap: Bootstrap) -> list[str]:
    if not any(score.loop for score in runs[0].cases):
        return []
    heading = _heading("With an agent that fetches again what it needs and does not see, in %")
    return [heading, _figures(runs, bootstrap, LOOP)]


def _cell(name: str, estimate: Estimate) -> str:
    figure = BY_NAME[name]
    return f"{shown(figure, estimate.value)}<small>{interval(figure, estimate)}</small>"


def _sent(runs: Sequence[RunScore]) -> str:
    titles = ["policy", "budget", "calls", "over budget", "tokens full", "tokens rendered", "saved"]
    titles += ["prompt tokens", "of them cached", "output", "policy's own model", "embedded"]
    rows = []
    for total in totals(runs):
        used, own = total.sent, total.own
        more = (used.prompt, used.read, used.output, own.prompt + own.output, own.embedded)
        rows.append([*map(escape, sent(total)), *(f"{count:,}" for count in more)])
    return _table(titles, rows)


def _differences(differences: Iterable[Difference]) -> list[str]:
    parts: list[str] = []
    for (case, other), group in groupby(differences, key=lambda each: (each.case, each.other)):
        parts.append(_heading(f"{case} less {other}"))
        rows = []
        for each in group:
            title, *told, verdict = differs(each)
            mark = f'<span class="{verdict}">{verdict}</span>' if verdict else ""
            rows.append([escape(title), *told, mark])
        parts.append(_table(["figure", "difference", "95%", ""], rows))
    return parts


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body, before = [], ""
    for row in rows:
        kind = ' class="first"' if before and row[0] != before and row[1][:1].isdigit() else ""
        before = row[0]
        body.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>")
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


assert {*IN_VIEW, *BILLED, *SPENT, *LOOP} == {figure.name for figure in FIGURES}
