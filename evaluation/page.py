"""The whole report as one HTML page that opens offline: nothing in it refers to another file."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Final

from evaluation.bootstrap import Bootstrap, Estimate
from evaluation.caches import RULES
from evaluation.compare import Difference
from evaluation.figures import BY_NAME, FIGURES
from evaluation.plots import Plot
from evaluation.report import interval, percent, shown
from evaluation.scores import RunScore, totals
from evaluation.sums import AGES
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
dt { font-weight: 600; } dd { margin: 0 0 .6rem 1rem; }
"""

HOW_TO_READ: Final = (
    (
        "result recall",
        "An event is a call whose text or arguments repeat a distinctive token that first appeared "
        "in an earlier tool result. Recall is the share of events whose result was in the prompt, "
        "complete. By age: turns since the result.",
    ),
    (
        "value recall",
        "The mean share of an event's tokens that stood anywhere in the prompt: it credits "
        "excerpts and copies.",
    ),
    ("turns with all values", "Calls that had every token they then repeated, of those with any."),
    (
        "tokens a call",
        "What the budget limits, by the mean; the system prompt and the current user message come "
        "on top.",
    ),
    (
        "standardized cost",
        "The paper's: ([2(1-ρ) + 0.5ρ] P + 8 O + 0.13 E) / 1,000,000 dollars, of prompt, output "
        "and embedded tokens; only of runs that exceed the budget. ρ is the cached share of full "
        "history's prompts, for every policy, so this cost does not see what a policy does to the "
        "provider's cache.",
    ),
    (
        "newest results complete",
        "Calls over budget, made after tool results came, that show all of those complete.",
    ),
    (
        "prompts, whole bill",
        "What a provider would charge relative to full history, under its own prompt cache and at "
        "the prices of LiteLLM's table: for prompts, and with output. OpenAI caches beginnings of "
        "1,024 tokens or more in blocks of 128; Anthropic charges more for what is written into "
        "the cache, up to breakpoints. Model calls of the policy itself are part of it.",
    ),
    (
        "closed loop",
        "The runs once more with an agent that reacts: where a step needs a value that is nowhere "
        "in view, the calls that gave it are made again first, and paid for. A newest result that "
        "is not in view at all is fetched again as well.",
    ),
    (
        "prompt cost, cached tokens at 0.25 or 0.1",
        "The prompts of all runs relative to full history's. Cached are the messages with which a "
        "prompt repeats the beginning of the previous one, down to the last token.",
    ),
    (
        "in brackets",
        "95% of resamplings of the tasks. Two intervals may overlap and the difference still be "
        "sure: the comparisons are paired.",
    ),
    (
        "what a replay cannot tell",
        "A replay measures what was in view, not whether tasks are solved. In the closed loop the "
        "agent knows what it lacks and fetches just that; a real one may look elsewhere, or guess.",
    ),
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
        "<dl>",
        *(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in HOW_TO_READ),
        "</dl>",
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
        recall, sent, own = total.recall, total.sent, total.own
        counts = (recall.invocations, recall.over_budget, recall.tokens_full)
        more = (sent.prompt, sent.cached, sent.output, own.prompt + own.output, own.embedded)
        rows.append(
            [
                escape(total.case.name),
                total.case.size,
                *(f"{count:,}" for count in (*counts, recall.tokens_rendered)),
                percent(total.share_saved),
                *(f"{count:,}" for count in more),
            ]
        )
    return _table(titles, rows)


def _differences(differences: Iterable[Difference]) -> list[str]:
    parts: list[str] = []
    for (case, other), group in groupby(differences, key=lambda each: (each.case, each.other)):
        parts.append(_heading(f"{case} less {other}"))
        rows = []
        for each in group:
            verdict = {True: "better", False: "worse", None: ""}[each.better]
            rows.append(
                [
                    escape(each.figure.title),
                    shown(each.figure, each.estimate.value, signed=True),
                    interval(each.figure, each.estimate, signed=True),
                    f'<span class="{verdict}">{verdict}</span>' if verdict else "",
                ]
            )
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
