"""List sessions: size, savings, and the share of steps that had every value they used."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import (
    Service,
    fitted,
    headline_share,
    plain,
    present,
    thousands,
)
from contextrender_bridge.cli.inspect.savings import day_of
from contextrender_bridge.printing import add_json

SHORT, LONG = 8, 20
SORTS = ("last", "turns", "tokens", "saved", "cost", "tools", "model", "client")
HEADS = (
    *("session", "about", "turns", "results", "tokens"),
    *("saved", "cost", "all values", "model", "tools", "last"),
)
WEIGHTS = (0, 0, 8, 2, 5, 7, 4, 6, 2, 1, 9)
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender sessions`."""
    parser.add_argument(
        "--search",
        default="",
        metavar="TEXT",
        help="only with it in a name, folder, client, model or tool",
    )
    parser.add_argument(
        "--since", default="", metavar="DAY", help="only those active from this day on, in UTC"
    )
    parser.add_argument(
        "--sort", default="", metavar="BY", help=f"{', '.join(SORTS)} (newest first)"
    )
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (%(default)s)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    own = current_settings().prices
    asked = {"query": args.search, "since": day_of(args.since), "sort": args.sort}
    with Service() as service:
        page = service.ask("list_sessions", limit=args.limit, prices=[own] if own else [], **asked)
    return present(args, page, lambda page: draw(page, args.search))


def draw(page: Json, search: str) -> RenderableType:
    """The table of the newest sessions, as much of it as there is room for."""
    if not page["sessions"]:
        return Text("no sessions" + (f" with {search!r}" if search else ""))
    names = short_names([view["session"] for view in page["sessions"]])
    rows = []
    for view, name in zip(page["sessions"], names, strict=True):
        counted = view["totals"]
        told = (
            " · ".join(filter(None, (view["client"], view["about"]))),
            str(view["turns"]),
            str(view["results"]),
            thousands(view["tokens"]),
            _saved(counted),
            _cost(counted),
            headline_share(counted),
            ", ".join(counted["models"]),
            tools_of(view["tools"]),
            _ago(view["updated_at"]),
        )
        rows.append([plain(name, "bold"), *map(plain, told)])
    more = Text("… and older ones: --limit shows more", "dim") if page["next"] else Text("")
    return Group(fitted(HEADS, rows, WEIGHTS, Console().width), more)


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


def tools_of(called: Mapping[str, int]) -> str:
    """The tool that a session called most often, and how many others."""
    most = sorted(called, key=lambda name: -called[name])
    return " +".join([*most[:1], *([str(len(most) - 1)] if most[1:] else [])])


def _saved(counted: Json) -> str:
    if not counted["calls"]:
        return "–"
    saved = counted["full"] - counted["prompt"]
    return thousands(saved) + (f" ({saved / counted['full']:.0%})" if counted["full"] else "")


def _cost(counted: Json) -> str:
    """Return the dollars of a session; `~` marks an estimate, where no provider told its usage."""
    if counted["cost"] is None:
        return "–"
    return f"{'~' if counted['is_estimate'] else ''}${counted['cost']:,.2f}"


def _ago(stamp: float) -> str:
    past = time.time() - stamp
    return next((f"{past / size:.0f} {unit}" for size, unit in UNITS if past >= size), "now")
