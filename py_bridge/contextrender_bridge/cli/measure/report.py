"""Measure policies on recorded runs and write a full report, as one page that opens offline.

Without --policy, all policies that call no model are measured. The folder of `--out` gets
report.html and figures.json; with --compaction it gets compactions.json alone.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from contextrender_bridge.audit.transcripts import read_transcripts
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.cli.measure.replay import add_replay_arguments, replay_and_print
from contextrender_bridge.engine.policies import POLICIES
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compaction_methods import (
    method_table,
    repeat_in_runs,
    repeated_sentence,
    score_runs,
)
from contextrender_bridge.evaluation.tables import console, page
from contextrender_bridge.printing import write_file

BUDGETS = "6000,12000,24000,48000"
OWN_POLICIES = ("contextrender_excerpts", "contextrender_cache_aware")
PAPER_POLICY = "contextrender"
"""Without --compare, our own policies are compared with the paper's."""
TITLE = "What each policy showed, and what it cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender eval`."""
    add_replay_arguments(parser, ",".join(POLICIES), BUDGETS)
    parser.set_defaults(closed_loop=True)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("eval-report"),
        metavar="DIR",
        help="output folder (%(default)s)",
    )
    parser.add_argument(
        "--compaction",
        action="store_true",
        help="measure instead what an agent has after a compaction, by method, at equal tokens",
    )


def run(args: argparse.Namespace) -> int:
    """Replay the runs, print the tables and write the report's folder.

    With --compaction, measure instead what agents have after their compactions.
    """
    if args.compaction:
        return compare_methods(args)
    try:
        from contextrender_bridge.evaluation.plots import curve
    except ImportError:
        raise CommandError(
            f"the report's plot needs matplotlib. Install it with {how_to_install('eval')}."
        ) from None
    # Replay as `contextrender replay` does, with the figures' file and the pairs set here.
    out = make_folder(args.out)
    args.json = out / "figures.json"
    # Without --compare, compare each of our policies with the paper's, if --policy names both.
    names = {case.policy for case in cases_of(args.policy, BUDGETS)}
    pairs = [[name, PAPER_POLICY] for name in OWN_POLICIES if {name, PAPER_POLICY} <= names]
    args.compare = args.compare or pairs
    report = replay_and_print(args)
    # Write the page.
    curve_svg = curve(report.bootstrap, report.verdict.rule)
    parts = report.parts_of_page(curve_svg, args.words)
    write_file(page(TITLE, parts), out / "report.html")
    print(f"The report was written to {out / 'report.html'}.")
    return 0


def compare_methods(args: argparse.Namespace) -> int:
    """Compare the contexts that several methods make at the agents' compactions. Return 0.

    Print a table of the methods, and how much each compaction frees if ContextRender compacts
    repeatedly. Write the figures to `compactions.json` in the output folder. Raise CommandError if
    there is nothing to measure.
    """
    out = make_folder(args.out)
    runs = read_transcripts(args.files, args.limit)
    scores = score_runs(runs, args.workers)
    if not scores:
        raise CommandError("no step in these runs uses a value from before a compaction.")
    sessions = repeat_in_runs(runs, args.workers)
    figures = {
        "scores": list(map(asdict, scores)),
        "repeated": [list(map(asdict, compactions)) for compactions in sessions],
    }
    write_file(json.dumps(figures, indent=1) + "\n", out / "compactions.json")
    console().print(method_table(scores), repeated_sentence(sessions), sep="\n", markup=False)
    return 0


def make_folder(folder: Path) -> Path:
    """Create the output folder if it does not exist, and return it.

    Raise CommandError if that fails.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"the folder {folder} cannot be created: {error.strerror}.") from None
    return folder
