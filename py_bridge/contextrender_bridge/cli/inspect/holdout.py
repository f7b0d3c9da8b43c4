"""Compare sessions sent whole (`--holdout`) with sessions that were shortened."""

from __future__ import annotations

import argparse

from rich.console import Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import Service, present, table_of
from contextrender_bridge.printing import add_json

NAMES = {
    "calls": "model calls",
    "length": "history's tokens, a call",
    "prompt": "prompt tokens",
    "fresh": "  not from the cache",
    "cached": "  from the cache",
    "output": "output tokens",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender holdout`."""
    parser.add_argument(
        "--limit",
        type=int,
        default=2000,
        metavar="N",
        help="how many of the newest sessions (%(default)s)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    with Service() as service:
        return present(args, service.ask("holdout_report", limit=args.limit), draw)


def draw(found: Json) -> RenderableType:
    """The sentence, and the means of both groups."""
    first = "a session, as billed"
    heads = (f"rendered ({found['rendered']})", f"whole ({found['holdout']})", "ratio", "95%")
    table = table_of(first, *heads, left=(first,))
    for row in found["measures"]:
        span = "–" if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        ratio = "–" if row["ratio"] is None else f"{row['ratio']:.2f}"
        means = [f"{row[name]:,.1f}" for name in ("rendered", "holdout")]
        table.add_row(NAMES[row["measure"]], *means, ratio, span)
    without_usage = (
        f"{found['sessions_without_usage']} sessions have no usage, or were only observed."
    )
    return Group(Text(found["summary"]), table, Text(without_usage, "dim"))
