"""Replay the agent run that is shipped, one model call at a time, and show what the agent needed
after its history was compacted, what the summary held of it and what would have been shown; what is
sent under some policies, and what that costs; and one of its calls explained by the service.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

import contextrender_bridge
from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.client import ContextRender
from contextrender_bridge.engine.call.settings import DEFAULT_BUDGET
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compactions import measure_runs
from contextrender_bridge.evaluation.report import compaction_table
from contextrender_bridge.evaluation.runs import Run, read_runs
from contextrender_bridge.evaluation.scores import RunScore, turns_of
from contextrender_bridge.evaluation.tables import Rows, console, percent
from contextrender_bridge.evaluation.workers import replay_runs
from contextrender_bridge.local_service import temporary_service

DATA = Path(contextrender_bridge.__file__).parent / "data"
SHIPPED = DATA / "demo.jsonl"
COMPACTION = DATA / "demo_compaction.json"
"""Before which message of the shipped run its history is compacted, and the summary."""
POLICIES: Final = f"{LIVE_POLICY}@{LIVE_BUDGET},full,contextrender,prune"
LIVE_AND_FULL: Final = (0, 1)
OTHERS: Final = (2, 3)
"""Numbers of the policies that are printed together."""
COLUMNS: Final = (
    *("policy", "budget", "tokens\nsaved", "OpenAI's\nbill", "Anthropic's\nbill"),
    *("result\nrecall", "value\nrecall", "steps\nwith all"),
)
EXPLAINED: Final = 12
"""Results of the explained call that are printed at least."""
SHOWN: Final = (
    *("openai_prompts", "anthropic_prompts"),
    *("result_recall", "value_recall", "turns_with_all_values"),
)
LEGEND: Final = (
    f"{LIVE_POLICY} is for live agents: it repeats its last prompt and appends. contextrender\n"
    "is the paper's policy and the API's default: it selects anew at every call, and what\n"
    "changes is not read from the provider's cache. prune keeps the newest results.\n\n"
    "Bills are of prompts, with the provider's prompt cache, in % of full history's. Recall\n"
    "is the share of what each call used that was in view: of the results, complete, and\n"
    "of their values, anywhere; steps with all had every value they used."
)


def add_arguments(_: argparse.ArgumentParser) -> None:
    """`contextrender demo` has no options."""


def run(_: argparse.Namespace) -> int:
    """Replays the run and prints the figures."""
    cases = cases_of(POLICIES, str(DEFAULT_BUDGET))
    (whole,) = read_runs([SHIPPED])
    (score,) = replay_runs([whole], cases, None)
    out = console()
    out.print(compaction_table(measure_runs(compacted(whole))))
    out.print(_table_of(score, LIVE_AND_FULL))
    print_one_call(out, whole)
    out.print("\n[bold]Other policies[/bold]", _table_of(score, OTHERS), LEGEND, sep="\n")
    return 0


def print_one_call(out: Console, run: Run) -> None:
    """Sends a run's calls through a service of its own and explains the one that used most."""
    call = max(turns_of(run), key=lambda turn: len({event.position for event in turn.events}))
    with temporary_service() as own, ContextRender(own.url, own.token) as client:
        for turn in turns_of(run)[: call.number]:
            if turn.position:
                client.fit(run.id, run.messages[: turn.position], fail_open=False)
        view = client.explain(run.id, turn=call.number)
    drawn_on = {event.position for event in call.events}
    rows = sorted(view["results"], key=lambda row: (row["position"] not in drawn_on, row["age"]))
    out.print(
        f"\n[bold]One call explained: call {call.number} of {escape(run.id)}, which used "
        f"{len(drawn_on)} results[/bold]\n"
        f"{view['tokens_after']:,} of {view['tokens_before']:,} tokens were sent, of "
        f"{view['budget']:,} that its budget had then."
    )
    cells = [
        (
            *("*" if row["position"] in drawn_on else "", row["name"]),
            row["display"] if row["order"] is not None else f"omitted: {row['reason']}",
            *(str(row["age"]), f"{row['reuse']:.2f}", f"{row['tokens']:,}"),
        )
        for row in rows[: max(EXPLAINED, len(drawn_on))]
    ]
    out.print(Rows("", ("", "tool", "shown", "age", "c", "tokens"), cells, left=3))
    out.print(
        "* the call used it. c is its observed reuse: a value that n results hold counts 1/n."
    )


def compacted(whole: Run) -> list[Run]:
    """The shipped run as its agent would have gone on with the summary that is shipped with it."""
    shipped = json.loads(COMPACTION.read_text(encoding="utf-8"))
    first, rest = whole.messages[: shipped["at"]], whole.messages[shipped["at"] :]
    summary = {"role": "user", "content": shipped["summary"]}
    return [
        replace(whole, messages=first),
        replace(
            whole,
            id=f"{whole.id}#2",
            messages=[whole.messages[0], summary, *rest],
            continues=whole.id,
        ),
    ]


def _table_of(run: RunScore, numbers: Sequence[int]) -> Rows:
    """A table of the cases of these numbers."""
    bootstrap = Bootstrap([run])
    rows = []
    for index in numbers:
        score, known = run.cases[index], bootstrap.estimates(index)
        rows.append(
            (
                score.case.policy,
                score.case.size if score.case.policy != "full" else "-",
                percent(score.share_saved),
                *(percent(known[name].value) for name in SHOWN),
            )
        )
    recall = run.cases[0].recall
    title = f"{run.id}: {recall.invocations:,} calls, {recall.tokens_full:,} tokens of history"
    return Rows(title, COLUMNS, rows)
