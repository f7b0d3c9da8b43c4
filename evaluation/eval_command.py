"""Measure policies on recorded runs and write the whole report, as one page that opens offline.

Without --policy these are all policies that call no model.

The folder of `--out` then has report.html, figures.json, figures.csv and scores/. If the
command is stopped, the same command goes on from scores/.
"""

import argparse
from pathlib import Path

from engine.models.summaries import MODEL_POLICIES
from engine.policies import POLICIES
from evaluation.replay_command import add_replay_arguments
from evaluation.replay_command import run as replay

BUDGETS = "6000,12000,24000,48000"
OUT = Path("eval-report")
OURS = ("contextrender_plus", "contextrender_frozen")
PAPER = "contextrender"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender eval`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    policies = ",".join(name for name in POLICIES if name not in MODEL_POLICIES)
    add_replay_arguments(parser, policies, BUDGETS)
    parser.set_defaults(closed_loop=True)
    parser.add_argument(
        "--out", type=Path, default=OUT, metavar="DIR", help="output folder (%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Replays, prints the tables and writes the folder."""
    out: Path = args.out
    args.resume = out / "scores"
    args.json, args.csv = out / "figures.json", out / "figures.csv"
    args.report = out / "report.html"
    named = {policy.partition(":")[0].partition("@")[0] for policy in args.policy.split(",")}
    if not args.compare:
        args.compare = [[name, PAPER] for name in OURS if {name, PAPER} <= named]
    status = replay(args)
    print(f"The report is {out / 'report.html'}.")
    return status
