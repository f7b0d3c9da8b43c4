"""Measure other libraries that shorten histories on the same runs: python -m bench.peers FILE.

Each is installed, at a pinned version, in a virtual environment of its own; while it is measured
it may not connect anywhere. A peer is asked only where the history exceeds the budget.
ContextRender's own policies are replayed on the same runs for comparison.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError

from bench.peers.catalogue import PEERS, Peer, Unavailable, python_of
from bench.peers.driving import PeerScore, drive, replay_ours
from evaluation import report
from evaluation.bootstrap import Bootstrap
from evaluation.cases import cases_of
from evaluation.replay_command import count
from evaluation.runs import Run, read_runs
from evaluation.workers import progress

CACHE = Path("~/.cache/contextrender-bench")
OURS = "contextrender,contextrender_plus,contextrender_frozen"

FIGURES = (
    *("result_recall", "value_recall", "turns_with_all_values"),
    *("openai_prompts", "openai_loop", "refetches"),
)

Row = dict[str, Any]


def main() -> int:
    args = _arguments()
    try:
        runs = sample(read_runs(args.files), args.limit)
        cases = cases_of(args.policy, str(args.budget))
    except CommandError as error:
        print(f"bench.peers: {error}", file=sys.stderr)
        return 1
    rows = [_row(str(case.name), score, "") for case, score in replay_ours(runs, cases)]
    for peer in PEERS:
        if args.only and not any(part in peer.name.lower() for part in args.only):
            continue
        rows.append(_measured(peer, runs, args))
        _print_row(rows[-1])
    _print(rows, runs, args.budget)
    return 0


def sample(runs: Sequence[Run], limit: int) -> list[Run]:
    """At most `limit` runs, evenly spread over the files."""
    if len(runs) <= limit:
        return list(runs)
    return [runs[number * len(runs) // limit] for number in range(limit)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--budget", type=count, default=6000, metavar="N", help="(%(default)s)")
    parser.add_argument("--limit", type=count, default=12, metavar="N", help="runs (%(default)s)")
    parser.add_argument("--policy", default=OURS, metavar="A,B", help="our rows (%(default)s)")
    parser.add_argument("--only", type=str.lower, nargs="*", metavar="PART", help="some peers only")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help="(%(default)s)")
    return parser.parse_args()


def _measured(peer: Peer, runs: Sequence[Run], args: argparse.Namespace) -> Row:
    try:
        python = python_of(peer, args.cache.expanduser())
        with progress(peer.name, sum(run.invocations for run in runs)) as advance:
            score = drive(python, peer, runs, args.budget, advance)
    except Unavailable as reason:
        return {"name": peer.name, "unavailable": str(reason)}
    return _row(peer.name, score, peer.note)


def _row(name: str, score: PeerScore, note: str) -> Row:
    calls = max(len(score.sizes), 1)
    known = Bootstrap(score.runs, 1).estimates(0)
    times = sorted(score.milliseconds) or [float("nan")]
    return {
        "name": name,
        **{figure: known[figure].value for figure in FIGURES},
        "calls": len(score.sizes),
        "tokens": statistics.fmean(score.sizes) if score.sizes else 0,
        "over_budget": score.beyond / calls,
        "with_orphans": score.with_orphans / calls,
        "without_task": score.without_task / calls,
        "failed": score.failed,
        "problem": score.problem,
        "ms_median": statistics.median(times),
        "ms_p99": times[min(int(0.99 * len(times)), len(times) - 1)],
        "note": note,
    }


def _print_row(row: Row) -> None:
    print(f"{row['name']}: {row.get('unavailable', 'measured')}", file=sys.stderr)


def _print(rows: Sequence[Row], runs: Sequence[Run], budget: int) -> None:
    made = report.table(
        f"Calls whose history exceeds {budget:,} tokens, shortened by each; % unless it says so",
        *("", "results", "values", "turns\nwith all", "prompts,\nOpenAI", "closed\nloop"),
        *("calls\nagain", "tokens\na call", "over\nbudget"),
        *("with\norphans", "task not\nin full", "ms\nmedian", "ms\np99"),
        folds="",
    )
    counts = ("over_budget", "with_orphans", "without_task")
    for row in rows:
        if "unavailable" in row:
            made.add_row(row["name"], *["-"] * 12)
            continue
        made.add_row(
            row["name"],
            *(report.percent(row[name]) for name in FIGURES),
            f"{row['tokens']:,.0f}",
            *(report.percent(row[name]) for name in counts),
            f"{row['ms_median']:.1f}",
            f"{row['ms_p99']:.1f}",
        )
    out = report.console()
    out.print(made)
    calls = rows[0].get("calls", 0) if rows else 0
    out.print(
        f"Runs: {len(runs)}, evenly spread over the files. Calls over budget: {calls}. Recall is "
        "over all calls,\nthose that fit included; bills are of full history's, calls again per "
        "100 steps. Tokens are of whole\nprompts: over budget is what exceeds the budget with the "
        "system prompt and the current user message\non top. ms are those of shortening alone, "
        "with the library's own objects made anew each call."
    )
    for row in rows:
        for line in (row.get("unavailable"), row.get("note"), _failures(row)):
            if line:
                out.print(f"{row['name']}: {line}.")


def _failures(row: Row) -> str:
    return f"failed at {row['failed']} calls ({row['problem']})" if row.get("failed") else ""


if __name__ == "__main__":
    sys.exit(main())
