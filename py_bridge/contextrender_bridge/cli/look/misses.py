"""What a session's calls lacked: the view behind `contextrender show --misses`."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.look.asking import plain, table_of

VALUES = 4


def draw(view: Json, session: str) -> RenderableType:
    """A row for each result that an answer needed and its call did not have in view."""
    misses = [miss for miss in view["misses"] if not miss["names_only"]]
    turns = len({miss["turn"] for miss in misses})
    names = len(view["misses"]) - len(misses)
    head = Text.assemble(
        plain(session, "bold"),
        f"  {turns} of {view['last']} turns needed what was out of view ({len(misses)} results)",
        f"; not counted: {names} that held names of tools or fields alone" if names else "",
    )
    table = table_of("turn", "result", left=("result",))
    table.add_column("needed", ratio=2)
    table.add_column("why it was out", ratio=3)
    for miss in misses:
        table.add_row(
            str(miss["turn"]),
            plain(f"#{miss['position']} {miss['name']}"),
            plain(_needed(miss), "bold red"),
            plain(miss["reason"] + room(miss)),
        )
    return Group(head, table) if misses else head


def room(row: Json) -> str:
    """What room there was for a result that is left out; `row` is of `explain` or `misses`."""
    if row["left"] is None:
        return ""
    if row["after"] is None:
        return f"; {row['left']:,} tokens kept free for what comes next"
    return f": needs {row['cost']}, {row['left']} left after {row['after']} taken"


def _needed(miss: Json) -> str:
    values = ", ".join(miss["values"][:VALUES])
    if len(miss["values"]) > VALUES:
        values += f" and {len(miss['values']) - VALUES} more"
    return "; ".join(filter(None, ["called again" if miss["again"] else "", values]))
