"""Measure policies on recorded runs and write the whole report, as one page that opens offline.

Without --policy these are all policies that call no model. The folder of `--out` then has
report.html and figures.json.
"""

import argparse
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.engine.policies import POLICIES
from contextrender_bridge.evaluation.export import write
from contextrender_bridge.evaluation.replay_command import add_replay_arguments, replayed
from contextrender_bridge.evaluation.tables import page

BUDGETS = "6000,12000,24000,48000"
OURS = ("contextrender_excerpts", "contextrender_cache_aware")
PAPER = "contextrender"
TITLE = "What each policy showed, and what it cost"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender eval`."""
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
    """Replays, prints the tables and writes the folder."""
    try:
        from contextrender_bridge.evaluation.plots import curve
    except ImportError:
        raise CommandError(f"plots need matplotlib: {how_to_install('eval')}.") from None
    out: Path = args.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make {out}: {error.strerror}.") from None
    args.json = out / "figures.json"
    named = {policy.partition(":")[0].partition("@")[0] for policy in args.policy.split(",")}
    if not args.compare:
        args.compare = [[name, PAPER] for name in OURS if {name, PAPER} <= named]
    report = replayed(args)
    drawn = curve(report.runs, report.bootstrap, report.verdict.rule)
    parts = report.parts_of_page(drawn, args.words)
    write(page(TITLE, parts), out / "report.html")
    print(f"The report is {out / 'report.html'}.")
    return 0
