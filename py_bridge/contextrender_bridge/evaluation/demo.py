"""Replay the shipped agent run, one model call at a time.

The demo shows which values the agent needed after its history was compacted, and how many of them
the summary and ContextRender's prompts had; what some policies send and what that costs; and one
call, explained by the service.
"""

import argparse
import json
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.markup import escape

from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.base.shipped import DATA
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.replies import ExplainView
from contextrender_bridge.engine.call.settings import DEFAULT_BUDGET
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compactions import measure_sample
from contextrender_bridge.evaluation.report import compaction_table
from contextrender_bridge.evaluation.runs import Run, compactions_of, read_runs
from contextrender_bridge.evaluation.scores import RunScore, turns_of
from contextrender_bridge.evaluation.tables import Rows, console, percent_or_dash
from contextrender_bridge.evaluation.workers import replay_runs, show_progress
from contextrender_bridge.local_service import temporary_service

SHIPPED = DATA / "demo.jsonl"
COMPACTION = DATA / "demo_compaction.json"
"""The file with the summary of a compaction, and the position of the first message after it."""
POLICIES: Final = f"{LIVE_POLICY}@{LIVE_BUDGET},full,contextrender,prune"
LIVE_AND_FULL: Final = (0, 1)
OTHER_POLICIES: Final = (2, 3)
"""The indexes in `POLICIES` of the policies that each table shows."""
COLUMNS: Final = (
    *("policy", "budget", "tokens\nsaved", "OpenAI's\nbill", "Anthropic's\nbill"),
    *("result\nrecall", "value\nrecall", "steps\nwith all"),
)
MIN_EXPLAINED_ROWS: Final = 12
"""The smallest number of the explained call's results that are printed."""
PRINTED_FIGURES: Final = (
    *("openai_prompts", "anthropic_prompts"),
    *("result_recall", "value_recall", "turns_with_all_values"),
)
LEGEND: Final = (
    f"{LIVE_POLICY} is for live agents: it repeats its previous prompt and appends to it. "
    "contextrender is the paper's policy and the API's default: it selects again at every call, "
    "and changed text is not read from the provider's cache. prune has the newest results.\n\n"
    "Bills are for prompts, with the provider's prompt cache, in % of the full history's. Result "
    "recall is the share of the used results that were complete, value recall the share of the "
    "used values that were visible. Steps with all had every value they used."
)


def run(_: argparse.Namespace) -> int:
    """Replay the shipped run, and print its tables and one explained call. Return 0."""
    cases = cases_of(POLICIES, str(DEFAULT_BUDGET))
    (recorded_run,) = read_runs([SHIPPED])
    (score,) = replay_runs([recorded_run], cases, None)
    out = console()
    out.print(compaction_table(measure_sample(compactions_of(compacted_runs(recorded_run)))))
    out.print(_table_of(score, LIVE_AND_FULL))
    print_one_call(out, recorded_run)
    out.print("\n[bold]Other policies[/bold]", _table_of(score, OTHER_POLICIES), LEGEND, sep="\n")
    return 0


def print_one_call(out: Console, run: Run) -> None:
    """Print what the prompt of one call shows and why: the call that used the most results.

    A temporary service explains the call. The rows have the results that the call used, marked by
    `*`, and then others, the newest first.
    """
    call = max(turns_of(run), key=lambda turn: len({event.position for event in turn.events}))
    view = _explain(run, call.number)
    used_results = {event.position for event in call.events}
    out.print(
        f"\n[bold]One call explained: call {call.number} of {escape(run.id)}, which used "
        f"{len(used_results)} results[/bold]\n"
        f"{view['tokens_after']:,} of {view['tokens_before']:,} tokens were sent; the budget of "
        f"the call was {view['budget']:,}."
    )
    out.print(_results_table(view, used_results))
    out.print("* The call used it. reuse: each use of a value that n results contain counts 1/n.")


def _results_table(view: ExplainView, used_results: Set[int]) -> Rows:
    """Return a table of an explained call's results: the used ones first, then the newest."""
    rows = sorted(
        view["results"], key=lambda row: (row["position"] not in used_results, row["age"])
    )
    cells: list[tuple[str, ...]] = []
    for row in rows[: max(MIN_EXPLAINED_ROWS, len(used_results))]:
        mark = "*" if row["position"] in used_results else ""
        is_omitted = row["order"] is None  # it has no place among the selected results
        display = f"omitted: {row['reason']}" if is_omitted else row["display"]
        numbers = str(row["age"]), f"{row['reuse']:.2f}", f"{row['tokens']:,}"
        cells.append((mark, row["name"], display, *numbers))
    return Rows("", ("", "tool", "shown", "age", "reuse", "tokens"), cells, text_columns=3)


def _explain(run: Run, call_number: int) -> ExplainView:
    """Send a run's calls up to this one to a temporary service, and return its explanation.

    Show a progress bar, which pulses while the service starts.
    """
    with (
        show_progress("Explaining one call", call_number) as advance,
        temporary_service() as service,
        ContextRender(service.url, service.token) as client,
    ):
        for turn in turns_of(run)[:call_number]:
            if turn.position:  # an answer at the start of a run has no history
                client.fit(run.id, run.messages[: turn.position], fail_open=False)
            advance(1)
        return client.explain(run.id, turn=call_number)


def compacted_runs(recorded_run: Run) -> list[Run]:
    """Return two runs: the given run up to a compaction, and the run after it.

    The second run begins with the system prompt and the shipped summary. `recorded_run` is the
    shipped run.
    """
    compaction = json.loads(COMPACTION.read_text(encoding="utf-8"))
    messages, end = recorded_run.messages, compaction["at"]
    summary = {"role": "user", "content": compaction["summary"]}
    return [
        replace(recorded_run, messages=messages[:end]),
        replace(
            recorded_run,
            id=f"{recorded_run.id}#2",
            messages=[messages[0], summary, *messages[end:]],
            continues=recorded_run.id,
        ),
    ]


def _table_of(run: RunScore, indexes: Sequence[int]) -> Rows:
    """Return a table with a row for each of the cases at these indexes."""
    bootstrap = Bootstrap([run])
    rows = []
    for index in indexes:
        score, figures = run.cases[index], bootstrap.estimates(index)
        rows.append(
            (
                score.case.policy,
                score.case.size if score.case.policy != "full" else "-",
                percent_or_dash(score.share_saved),
                *(percent_or_dash(figures[name].value) for name in PRINTED_FIGURES),
            )
        )
    recall = run.cases[0].recall
    title = f"{run.id}: {recall.invocations:,} calls, {recall.tokens_full:,} tokens of history"
    return Rows(title, COLUMNS, rows)
