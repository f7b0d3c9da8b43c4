"""Measure other libraries that shorten histories on the same runs: python -m bench.peers FILE.

Each library, or peer, is installed at a pinned version in its own virtual environment, and cannot
open connections while it is measured. A peer is called only if the history exceeds the budget.
ContextRender's policies are replayed on the same runs for comparison.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.replay_command import positive_count
from contextrender_bridge.evaluation.runs import Run, read_runs
from contextrender_bridge.evaluation.tables import Rows, console, percent_or_dash
from contextrender_bridge.evaluation.workers import show_progress

from bench.peers.catalogue import PEERS, Peer, Unavailable, python_of
from bench.peers.driving import PeerScore, drive, replay_ours

CACHE = Path("~/.cache/contextrender-bench").expanduser()
OWN_POLICIES = "contextrender,contextrender_excerpts,contextrender_cache_aware,prune"
FIGURES = ("value_recall", "turns_with_all_values", "openai_prompts", "openai_loop")
COLUMNS = (
    *("", "values", "turns\nwith all", "prompts,\nOpenAI", "closed\nloop"),
    *("tokens\na call", "over\nbudget", "ms\nmedian"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--budget", type=positive_count, default=6000, metavar="N", help="(%(default)s)"
    )
    parser.add_argument(
        "--limit", type=positive_count, default=12, metavar="N", help="runs (%(default)s)"
    )
    args = parser.parse_args()
    try:
        runs = sample(read_runs(args.files), args.limit)
        cases = cases_of(OWN_POLICIES, str(args.budget))
    except CommandError as error:
        print(f"bench.peers: {error}", file=sys.stderr)
        return 1
    rows = [_row(case.name, score) for case, score in replay_ours(runs, cases)]
    notes = []
    for peer in PEERS:
        try:
            score = _measure(peer, runs, args.budget)
        except Unavailable as reason:
            notes.append(f"{peer.name}: {reason}.")
            continue
        rows.append(_row(peer.name, score))
        notes.append(f"{peer.name}: {peer.note}.")
        if score.failed:
            notes.append(f"{peer.name}: failed at {score.failed} calls ({score.problem}).")
    title = f"Calls whose history exceeds {args.budget:,} tokens, shortened by each; % of them"
    out = console()
    out.print(Rows(title, COLUMNS, rows))
    out.print(
        f"Runs: {len(runs)}, evenly spread over the files. Recall is over all calls, those that "
        "fit included;\nbills are of full history's. Tokens are of whole prompts: over budget is "
        "what exceeds the budget with\nthe system prompt and the current user message on top. ms "
        "are those of shortening alone, with the\nlibrary's own objects made anew each call.",
        *notes,
        sep="\n",
        markup=False,
    )
    return 0


def sample(runs: Sequence[Run], limit: int) -> list[Run]:
    """Return at most `limit` runs, evenly distributed over the files."""
    if len(runs) <= limit:
        return list(runs)
    return [runs[number * len(runs) // limit] for number in range(limit)]


def _measure(peer: Peer, runs: Sequence[Run], budget: int) -> PeerScore:
    python = python_of(peer, CACHE)
    with show_progress(peer.name, sum(run.invocations for run in runs)) as advance:
        return drive(python, peer, runs, budget, advance)


def _row(name: str, score: PeerScore) -> list[str]:
    figures = Bootstrap(score.runs, 1).estimates(0)
    sizes, times = score.sizes or [0], score.milliseconds or [float("nan")]
    return [
        name,
        *(percent_or_dash(figures[figure].value) for figure in FIGURES),
        f"{statistics.fmean(sizes):,.0f}",
        percent_or_dash(score.over_budget / len(sizes)),
        f"{statistics.median(times):.1f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
