"""List the values that a session's answers used although they were not in the prompt."""

import argparse

from rich.console import Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import (
    ServiceClient,
    add_session_options,
    agent_text,
    headline,
    new_table,
    old_versions_note,
    print_view,
    remaining_tokens_note,
)
from contextrender_bridge.printing import add_json

MAX_VALUES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender misses`."""
    add_session_options(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print a headline, and a row for each miss of the session."""
    session_fields = {"session": args.session, "branch": args.branch}
    with ServiceClient() as service:
        view = service.pages("misses", ("misses", "turns", "old_versions"), **session_fields)
        totals = None if args.json else service.totals(**session_fields)
    return print_view(args, view, lambda view: draw(view, args.session, totals))


def draw(view: Json, session: str, totals: Json | None) -> RenderableType:
    """Return a headline, and a table of the results whose used values were not in the prompt.

    `view` is the reply of `misses`. If `totals` is None, the headline does not have the share of
    steps. Misses of names of tools or fields alone are only counted, in the headline.
    """
    misses = [miss for miss in view["misses"] if not miss["names_only"]]
    names_only_count = len(view["misses"]) - len(misses)
    head = Text.assemble(agent_text(session, "bold"), f"  {headline(totals) if totals else ''}")
    if names_only_count:
        head.append(f" Not counted: misses of names of tools or fields alone ({names_only_count}).")
    head.append(old_versions_note(view["old_versions"]))
    # Values and reasons share the width that remains, and are wrapped.
    table = new_table("turn", "result", text_columns=("result",))
    table.add_column("missing", ratio=2)
    table.add_column("reason", ratio=3)
    for miss in misses:
        table.add_row(
            str(miss["turn"]),
            agent_text(f"#{miss['position']} {miss['name']}"),
            agent_text(_missing_values(miss), "bold red"),
            agent_text(miss["reason"] + remaining_tokens_note(miss)),
        )
    return Group(head, table) if misses else head


def _missing_values(miss: Json) -> str:
    """Return the first values that were missing, with notes before and after them.

    A note before them says that the agent repeated the tool call. A note after them says that user
    or system messages had every value before.
    """
    parts = ["called again"] if miss["repeated"] else []
    if miss["values"]:
        values = ", ".join(miss["values"][:MAX_VALUES])
        if (hidden_count := len(miss["values"]) - MAX_VALUES) > 0:
            values += f" and {hidden_count} more"
        parts.append(values)
        # Each value has the position of a message that had it before, negative if there is none.
        if min(miss["source_messages"]) >= 0:
            parts.append("said by the user")
    return "; ".join(parts)
