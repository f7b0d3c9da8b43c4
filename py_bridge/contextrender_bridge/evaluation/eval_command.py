"""Measure policies on recorded runs and write a full report, as one page that opens offline.

Without --policy, all policies that call no model are measured. The folder of `--out` gets
report.html and figures.json.
"""

import argparse
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.engine.policies import POLICIES
from contextrender_bridge.evaluation.export import write
from contextrender_bridge.evaluation.replay_command import add_replay_arguments, replay_and_print
from contextrender_bridge.evaluation.tables import page

BUDGETS = "6000,12000,24000,48000"
NEW_POLICIES = ("contextrender_excerpts", "contextrender_cache_aware")
PAPER = "contextrender"
TITLE = "What each policy showed, and what it cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender eval`."""
    policies = ",".join(name for name, policy in POLICIES.items() if not policy.needs_model)
    add_replay_arguments(parser, policies, BUDGETS)
    parser.set_defaults(closed_loop=True)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("eval-report"),
        metavar="DIR",
        help="output folder (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Replay the runs, print the tables and write the report's folder."""
    try:
        from contextrender_bridge.evaluation.plots import curve
    except ImportError:
        raise CommandError(
            f"the report's plot needs matplotlib. Install it with {how_to_install('eval')}."
        ) from None
    out: Path = args.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"the folder {out} cannot be created: {error.strerror}.") from None
    args.json = out / "figures.json"
    policy_names = {policy.partition(":")[0].partition("@")[0] for policy in args.policy.split(",")}
    if not args.compare:
        args.compare = [[name, PAPER] for name in NEW_POLICIES if {name, PAPER} <= policy_names]
    report = replay_and_print(args)
    curve_svg = curve(report.runs, report.bootstrap, report.verdict.rule)
    parts = report.parts_of_page(curve_svg, args.words)
    write(page(TITLE, parts), out / "report.html")
    print(f"The report was written to {out / 'report.html'}.")
    return 0
