"""List sessions: size, what rendering saved, and how much of what answers drew on was in view."""

from __future__ import annotations

import argparse
import time

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from contextrender_bridge.cli.look.asking import Service, add_watch, plain, present, thousands
from contextrender_bridge.printing import add_json
from contextrender_bridge.wire import Json

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender sessions`."""
    parser.add_argument("--search", default="", metavar="TEXT", help="only names that hold it")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (%(default)s)")
    add_json(parser)
    add_watch(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    with Service() as service:
        return present(
            args,
            lambda: service.ask("list_sessions", limit=args.limit, query=args.search),
            lambda page: draw(page, args),
        )


def draw(page: Json, args: argparse.Namespace) -> RenderableType:
    """The table of the newest sessions."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("session", overflow="fold", ratio=1)
    for name in ("turns", "results", "tokens", "saved", "in view", "last"):
        table.add_column(name, justify="right", no_wrap=True)
    for view in page["sessions"]:
        table.add_row(
            plain(view["session"], "bold"),
            str(view["turns"]),
            str(view["results"]),
            thousands(view["tokens"]),
            _saved(view["counted"]),
            _in_view(view["counted"]),
            _ago(view["updated_at"]),
        )
    if not page["sessions"]:
        return Text("no sessions" + (f" with {args.search!r} in their name" if args.search else ""))
    more = Text("… and older ones: --limit shows more", "dim") if page["next"] else Text("")
    return Group(table, more)


def _saved(counted: Json) -> str:
    if not counted["calls"]:
        return "–"
    saved = counted["full"] - counted["prompt"]
    return thousands(saved) + (f" ({saved / counted['full']:.0%})" if counted["full"] else "")


def _in_view(counted: Json) -> str:
    """Of the results that answers drew on, those they had complete."""
    return f"{counted['seen'] / counted['drawn']:.0%}" if counted["drawn"] else "–"


def _ago(stamp: float) -> str:
    past = time.time() - stamp
    return next((f"{past / size:.0f} {unit}" for size, unit in UNITS if past >= size), "now")
