"""List sessions: size, what rendering saved, and how much of what answers used was in view."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.look.asking import Service, add_watch, plain, present, thousands
from contextrender_bridge.printing import add_json

SHORT, LONG = 8, 20
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender sessions`."""
    parser.add_argument("--search", default="", metavar="TEXT", help="only names that contain it")
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
    table = Table(box=None, header_style="dim", pad_edge=False, expand=True)
    table.add_column("session", no_wrap=True)
    table.add_column("about", no_wrap=True, ratio=1, overflow="ellipsis")
    for name in ("turns", "tokens", "saved", "in view", "last"):
        table.add_column(name, justify="right", no_wrap=True)
    names = short_names([view["session"] for view in page["sessions"]])
    for view, name in zip(page["sessions"], names, strict=True):
        about = " · ".join(filter(None, (view["client"], view["about"])))
        table.add_row(
            plain(name, "bold"),
            plain(about),
            str(view["turns"]),
            thousands(view["tokens"]),
            _saved(view["counted"]),
            _in_view(view["counted"]),
            _ago(view["updated_at"]),
        )
    if not page["sessions"]:
        return Text("no sessions" + (f" with {args.search!r} in their name" if args.search else ""))
    more = Text("… and older ones: --limit shows more", "dim") if page["next"] else Text("")
    return Group(table, more)


def short_names(names: Sequence[str]) -> list[str]:
    """Of long names the beginnings that tell them apart: commands take these as well."""
    told = []
    for name in names:
        size = SHORT
        while size < len(name) and any(
            other != name and other.startswith(name[:size]) for other in names
        ):
            size += 1
        told.append(name if len(name) <= LONG else name[:size])
    return told


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
