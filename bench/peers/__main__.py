"""Compare context policies and other libraries on the same runs: python -m bench.peers FILE...

Each file is a corpus with a table of its own. Each library, or peer, is installed at a pinned
version in its own virtual environment, and cannot open connections while it is measured. A peer is
called only if the history exceeds the budget. ContextRender's policies are replayed on the same
runs. Your own policy is a function: --function module:name takes the messages and the number of
tokens that they may have, and returns messages.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.bootstrap import Bootstrap, span
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.runs import Run, read_runs
from contextrender_bridge.evaluation.tables import Rows, console, percent_or_dash
from contextrender_bridge.evaluation.workers import show_progress
from contextrender_bridge.printing import add_count

from bench.peers.catalogue import PEERS, Peer, Unavailable, function_peer, python_of
from bench.peers.driving import PeerScore, drive, replay_ours

CACHE = Path("~/.cache/contextrender-bench").expanduser()
OWN_POLICIES = (
    "contextrender,contextrender_excerpts,contextrender_cache_aware,prune,"
    "contextrender_cache_aware:agent_defaults=1@auto"
)
FIGURES = (
    *("turns_with_all_values", "newest_complete", "openai_calls", "anthropic_calls"),
    "openai_loop",
)
COLUMNS = (
    *("", "steps with\nall values", "newest\ncomplete", "bill,\nOpenAI", "bill,\nAnthropic"),
    *("closed loop,\nOpenAI", "tokens\na call", "over\nbudget", "ms\nmedian"),
)
NOTES = (
    "Figures are in %, with 95% intervals over tasks, of all calls, those that fit included.\n"
    "Bills are of full history's. The last three columns are of the calls whose history exceeds\n"
    "the budget: the tokens of whole prompts; the share whose prompt exceeds the budget with the\n"
    "system prompt and the current user message on top; the time of shortening alone, with the\n"
    "library's objects made anew for each call. Only values in tool results are measured, not\n"
    "whether the tasks are solved."
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench.peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add_count(parser, "--budget", "(%(default)s)", 6000)
    add_count(parser, "--limit", "runs of each file, evenly distributed (%(default)s)", 12)
    parser.add_argument(
        "--function",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="a function that shortens messages; may be repeated",
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="only these peers")
    return parser


def main() -> int:
    args = _parser().parse_args()
    peers = [peer for peer in PEERS if args.only is None or peer.name in args.only]
    peers += map(function_peer, args.function)
    output = console()
    try:
        for file in args.files:
            runs = _sample(read_runs([file]), args.limit)
            table, notes = _table(file.name, runs, peers, args.budget)
            output.print(table)
            output.print(*notes, sep="\n", markup=False)
    except CommandError as error:
        print(f"bench.peers: {error}", file=sys.stderr)
        return 1
    output.print(NOTES, markup=False)
    return 0


def _sample(runs: Sequence[Run], limit: int) -> list[Run]:
    """Return at most `limit` runs, evenly distributed over the file."""
    if len(runs) <= limit:
        return list(runs)
    return [runs[number * len(runs) // limit] for number in range(limit)]


def _table(
    corpus: str, runs: Sequence[Run], peers: Sequence[Peer], budget: int
) -> tuple[Rows, list[str]]:
    """Return the table of one corpus, the best first, and notes on the peers."""
    own_cases = cases_of(OWN_POLICIES, str(budget))
    entries = [_Entry(str(case), score) for case, score in replay_ours(runs, own_cases)]
    notes: list[str] = []
    for peer in peers:
        try:
            score = _measure(peer, runs, budget)
        except Unavailable as reason:
            notes.append(f"{peer.name}: {reason}.")
            continue
        entries.append(_Entry(peer.name, score))
        notes.append(f"{peer.name}: {peer.note}.")
        if score.failed:
            notes.append(f"{peer.name}: failed at {score.failed} calls ({score.problem}).")
    entries.sort(key=lambda entry: -entry.share_with_all_values)
    title = f"{corpus}: {len(runs)} runs, histories over {budget:,} tokens shortened by each"
    return Rows(title, COLUMNS, [entry.row() for entry in entries]), notes


def _measure(peer: Peer, runs: Sequence[Run], budget: int) -> PeerScore:
    """Return the score of a peer, with a progress bar. Raise Unavailable if it cannot run."""
    python = python_of(peer, CACHE)
    with show_progress(peer.name, sum(run.invocations for run in runs)) as advance:
        return drive(python, peer, runs, budget, advance)


class _Entry:
    """A row of the table: the name of a policy or a peer, and its score."""

    def __init__(self, name: str, score: PeerScore) -> None:
        self._name = name
        self._score = score
        self._estimates = Bootstrap(score.runs).estimates(0)

    @property
    def share_with_all_values(self) -> float:
        """The share of steps with all values, by which entries are sorted."""
        return self._estimates["turns_with_all_values"].value or 0.0

    def row(self) -> list[str]:
        """Return the cells, one for each of `COLUMNS`."""
        score = self._score
        sizes, times = score.sizes or [0], score.milliseconds or [float("nan")]
        estimates = [self._estimates[figure] for figure in FIGURES]
        return [
            self._name,
            *(f"{percent_or_dash(e.value).rstrip('%')} {span(e)}".strip() for e in estimates),
            f"{statistics.fmean(sizes):,.0f}",
            percent_or_dash(score.over_budget / len(sizes)),
            f"{statistics.median(times):.1f}",
        ]


if __name__ == "__main__":
    sys.exit(main())
