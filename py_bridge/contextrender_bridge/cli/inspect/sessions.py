"""List sessions: size, savings, and the share of steps that had every value they used."""

import argparse
import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import (
    ServiceClient,
    agent_text,
    fit_table,
    headline_share,
    print_view,
    short_count,
)
from contextrender_bridge.cli.inspect.savings import as_day, own_prices
from contextrender_bridge.printing import add_count, add_json

MIN_NAME_CHARS, MAX_NAME_CHARS = 8, 20
MIN_ABOUT_WIDTH = 36
"""The width of the column with the user's first words, for which numbers are left out."""
SORTS = ("last", "turns", "tokens", "saved", "cost", "tools", "model", "client")
HEADS = (
    *("session", "about", "turns", "results", "tokens"),
    *("saved", "cost", "all values", "model", "tools", "last"),
)
WEIGHTS = (0, 0, 8, 2, 5, 7, 4, 6, 2, 1, 9)
"""The weights for `fit_table`, one for each column of `HEADS`."""
TIME_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
"""Seconds in each unit, the largest first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender sessions`."""
    parser.add_argument(
        "--search",
        default="",
        metavar="TEXT",
        help="only sessions with TEXT in the name, folder, client, model or tools",
    )
    parser.add_argument(
        "--since", default="", metavar="DAY", help="only sessions active since this day (UTC)"
    )
    parser.add_argument(
        "--sort", default="", metavar="BY", help=f"one of {', '.join(SORTS)} (newest first)"
    )
    add_count(parser, "--limit", "show at most N sessions (%(default)s)", 20)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print a table of the sessions that match the options."""
    filters = {"query": args.search, "since": as_day(args.since), "sort": args.sort}
    with ServiceClient() as service:
        page = service.ask("list_sessions", limit=args.limit, prices=own_prices(), **filters)
    return print_view(args, page, lambda page: draw(page, args.search))


def draw(page: Json, search: str) -> RenderableType:
    """Return a table of the sessions, with the columns that fit into the terminal."""
    if not page["sessions"]:
        return Text("no sessions" + (f" with {search!r}" if search else ""))
    names = short_names([view["session"] for view in page["sessions"]])
    rows = []
    for view, name in zip(page["sessions"], names, strict=True):
        totals = view["totals"]
        # A cell for each of `HEADS` after the session's name.
        cells = (
            " · ".join(filter(None, (view["about"], view["client"]))),
            str(view["turns"]),
            str(view["results"]),
            short_count(view["tokens"]),
            _saved(totals),
            _cost(totals),
            headline_share(totals),
            ", ".join(totals["models"]),
            tool_summary(view["tools"]),
            _age(view["updated_at"]),
        )
        rows.append([agent_text(name, "bold"), *map(agent_text, cells)])
    footer = Text("… and older ones: --limit shows more", "dim") if page["next"] else Text("")
    return Group(fit_table(HEADS, rows, WEIGHTS, Console().width, MIN_ABOUT_WIDTH), footer)


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names of sessions, with long names cut to a beginning that no other name has.

    Commands accept such a beginning, too.
    """
    result = []
    for name in names:
        if len(name) <= MAX_NAME_CHARS:
            result.append(name)
            continue
        other_names = [other for other in names if other != name]
        size = MIN_NAME_CHARS
        while size < len(name) and any(other.startswith(name[:size]) for other in other_names):
            size += 1
        result.append(name[:size])
    return result


def tool_summary(calls_by_tool: Mapping[str, int]) -> str:
    """Return the tool that was called most often and the number of others, such as `bash +3`."""
    if not calls_by_tool:
        return ""
    most_called = max(calls_by_tool, key=lambda name: calls_by_tool[name])
    other_count = len(calls_by_tool) - 1
    return f"{most_called} +{other_count}" if other_count else most_called


def _saved(totals: Json) -> str:
    """Return the tokens that a session saved, with their share of the full history's tokens.

    It is a dash if no call of the session was recorded.
    """
    if not totals["calls"]:
        return "–"
    saved_tokens = totals["full"] - totals["prompt"]
    share = f" ({saved_tokens / totals['full']:.0%})" if totals["full"] else ""
    return short_count(saved_tokens) + share


def _cost(totals: Json) -> str:
    """Return the cost of a session in dollars; a dash if no price is known.

    `~` marks an estimate, made because the provider did not report the usage of all calls.
    """
    if totals["cost"] is None:
        return "–"
    mark = "~" if totals["is_estimate"] else ""
    return f"{mark}${totals['cost']:,.2f}"


def _age(timestamp: float) -> str:
    """Return how long ago a Unix second was, such as `3 h`; "now" for less than a minute."""
    age = time.time() - timestamp
    for seconds, unit in TIME_UNITS:
        if age >= seconds:
            return f"{age / seconds:.0f} {unit}"
    return "now"
