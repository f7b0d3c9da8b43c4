"""Compare sessions sent with the full history (`--holdout`) with sessions that were rendered."""

import argparse

from rich.console import Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import ServiceClient, new_table, print_view
from contextrender_bridge.printing import add_count, add_json

MEASURE_LABELS = {
    "calls": "model calls",
    "full_tokens_per_call": "history tokens per call",
    "prompt": "prompt tokens",
    "uncached": "  uncached",
    "cached": "  cache read",
    "output": "output tokens",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender holdout`."""
    add_count(parser, "--limit", "compare the N newest sessions (%(default)s)", 2000)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    with ServiceClient() as service:
        return print_view(args, service.ask("holdout_report", limit=args.limit), draw)


def draw(report: Json) -> RenderableType:
    """Return the summary, and a table with the means of rendered sessions and of full ones.

    The table also has the ratio of the two means, with its 95% interval.
    """
    label_title = "mean per session"
    titles = (f"rendered ({report['rendered']})", f"full ({report['holdout']})", "ratio", "95%")
    table = new_table(label_title, *titles, text_columns=(label_title,))
    for row in report["measures"]:
        label = MEASURE_LABELS[row["measure"]]
        means = [f"{row[name]:,.1f}" for name in ("rendered", "holdout")]
        ratio = "–" if row["ratio"] is None else f"{row['ratio']:.2f}"
        interval = "–" if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        table.add_row(label, *means, ratio, interval)
    without_usage = (
        f"{report['sessions_without_usage']} sessions have no usage, or were only observed."
    )
    return Group(Text(report["summary"]), table, Text(without_usage, "dim"))
