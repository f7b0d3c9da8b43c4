"""List the values that a session's prompts did not have although the answers used them."""

from __future__ import annotations

import argparse

from rich.console import Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import (
    Service,
    add_session,
    headline,
    plain,
    present,
    room,
    table_of,
)
from contextrender_bridge.printing import add_json

MAX_VALUES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender misses`."""
    add_session(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the headline, and a line for each miss."""
    named = {"session": args.session, "branch": args.branch}
    with Service() as service:
        view = service.pages("misses", ("misses", "turns"), **named)
        totals = None if args.json else service.totals(**named)
    return present(args, view, lambda view: draw(view, args.session, totals))


def draw(view: Json, session: str, totals: Json | None) -> RenderableType:
    """Return a row for each result whose used value was nowhere in the prompt."""
    misses = [miss for miss in view["misses"] if not miss["names_only"]]
    names = len(view["misses"]) - len(misses)
    head = Text.assemble(
        plain(session, "bold"),
        f"  {headline(totals) if totals else ''}",
        f" Not counted: {names} results that held names of tools or fields alone." if names else "",
    )
    table = table_of("turn", "result", left=("result",))
    table.add_column("missing", ratio=2)
    table.add_column("reason", ratio=3)
    for miss in misses:
        table.add_row(
            str(miss["turn"]),
            plain(f"#{miss['position']} {miss['name']}"),
            plain(_missing(miss), "bold red"),
            plain(miss["reason"] + room(miss)),
        )
    return Group(head, table) if misses else head


def _missing(miss: Json) -> str:
    values = ", ".join(miss["values"][:MAX_VALUES])
    if len(miss["values"]) > MAX_VALUES:
        values += f" and {len(miss['values']) - MAX_VALUES} more"
    return "; ".join(filter(None, ["called again" if miss["repeated"] else "", values]))
