"""Show what each tool's results and declaration cost, and how much was never used."""

import argparse

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import (
    ServiceClient,
    agent_text,
    fit_table,
    print_view,
    short_count,
)
from contextrender_bridge.engine.replay.tool_costs import dollar_text
from contextrender_bridge.printing import add_count, add_json

DEFAULT_SESSIONS = 20
HEADS = ("tool", "results", "tokens", "never used", "dollars", "declared", "its dollars")
WEIGHTS = (0, 4, 6, 5, 7, 2, 3)
"""The weights for `fit_table`, one for each column of `HEADS`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender tools`."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this session")
    add_count(parser, "--limit", "the N newest sessions (%(default)s)", DEFAULT_SESSIONS)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tools of one session, or of the newest sessions together."""
    with ServiceClient() as service:
        view = service.ask("tools", session=args.session, limit=args.limit)
    return print_view(args, view, draw)


def draw(view: Json) -> RenderableType:
    """Return the advice, and a table with a row for each tool, as far as it fits."""
    if not view["tools"]:
        return Text("no tool was called or declared")
    rows = [_row(tool) for tool in view["tools"]]
    table = fit_table(HEADS, rows, WEIGHTS, Console().width)
    return Group(*map(agent_text, view["advice"]), Text(""), table)


def _row(tool: Json) -> list[Text]:
    """Return a row of the table: a cell for each of `HEADS`, with a dash for what is not known.

    `declared` is the number of tokens of the tool's declaration.
    """
    unused = f"{tool['unused_tokens'] / tool['tokens']:.0%}" if tool["tokens"] else "–"
    return [
        agent_text(tool["name"], "bold", 40),
        Text(f"{tool['results']:,}"),
        Text(short_count(tool["tokens"])),
        Text(unused),
        Text(_dollars(tool["dollars"])),
        Text(short_count(tool["declared"]) if tool["declared"] else "–"),
        Text(_dollars(tool["declared_dollars"])),
    ]


def _dollars(amount: float | None) -> str:
    """Return dollars as text; a dash if the amount is not known."""
    return "–" if amount is None else dollar_text(amount)
