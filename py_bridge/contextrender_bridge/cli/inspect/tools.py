"""Show what each tool's results and declaration cost, and how much was never used."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

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
from contextrender_bridge.engine.replay.tool_costs import FLOOD_TOKENS
from contextrender_bridge.printing import add_json, printable

DEFAULT_SESSIONS = 20
HEADS = ("tool", "results", "tokens", "never used", "dollars", "declared", "its dollars")
WEIGHTS = (0, 4, 6, 5, 7, 2, 3)
"""The widths for `fit_table`, one for each column of `HEADS`."""
MAX_NAMES = 3
SUMMED_COUNTS = ("results", "tokens", "reused", "unused_tokens", "declared", "excess_tokens")
SUMMED_COSTS = ("dollars", "declared_dollars", "excess_dollars")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender tools`."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this session")
    parser.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_SESSIONS,
        metavar="N",
        help="the N newest sessions (%(default)s)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tools of one session, or of the newest sessions together."""
    with ServiceClient() as service:
        if args.session:
            names = [args.session]
        else:
            page = service.ask("list_sessions", limit=max(args.limit, 1))
            names = [view["session"] for view in page["sessions"]]
        sessions = [service.ask("inspect_session", session=name) for name in names]
    return print_view(args, sum_tools(sessions), draw)


def sum_tools(sessions: Iterable[Json]) -> Json:
    """Return the sums for each tool over the sessions, the most expensive tool first."""
    tools: dict[str, Json] = {}
    count = 0
    for view in sessions:
        count += 1
        for tool in view["tools"]:
            zeros = {**dict.fromkeys(SUMMED_COUNTS, 0), **dict.fromkeys(SUMMED_COSTS)}
            total = tools.setdefault(tool["name"], {"name": tool["name"], **zeros, "largest": 0})
            for field in SUMMED_COUNTS:
                total[field] += tool[field]
            for field in SUMMED_COSTS:
                if tool[field] is not None:
                    total[field] = (total[field] or 0.0) + tool[field]
            if tool["largest"] > total["largest"]:
                position = {"session": view["session"]["session"], "turn": tool["largest_turn"]}
                total |= {"largest": tool["largest"], "largest_at": position}
    return {"sessions": count, "tools": sorted(tools.values(), key=_cost, reverse=True)}


def draw(view: Json) -> RenderableType:
    """Return the advice and a table of the tools."""
    if not view["tools"]:
        return Text("no tool was called or declared")
    rows = [_row(tool) for tool in view["tools"]]
    table = fit_table(HEADS, rows, WEIGHTS, Console().width)
    return Group(Text("\n".join(advice(view))), Text(""), table)


def advice(view: Json) -> list[str]:
    """Return sentences on tools with large unused results, and on tools never called."""
    tools, sentences = view["tools"], []
    floods = [tool for tool in tools if tool["largest"] >= FLOOD_TOKENS and tool["unused_tokens"]]
    if floods:
        sentences.append(_flood_sentence(max(floods, key=lambda tool: tool["unused_tokens"])))
    never_called = [tool for tool in tools if tool["declared"] and not tool["results"]]
    if never_called:
        tokens = sum(tool["declared"] for tool in never_called)
        dollars = sum(tool["declared_dollars"] or 0.0 for tool in never_called)
        names = ", ".join(printable(tool["name"], 30) for tool in never_called[:MAX_NAMES])
        hidden_count = len(never_called) - MAX_NAMES
        more_note = f" and {hidden_count} more" if hidden_count > 0 else ""
        sentences.append(
            f"Never called: {names}{more_note}; their declarations are {short_count(tokens)} "
            f"tokens of every request{_about_dollars(dollars)}. Switch them off in the agent."
        )
    if sentences:
        return sentences
    is_declared = any(tool["declared"] for tool in tools)
    return ["No tool floods" + (", and every declared one was called." if is_declared else ".")]


def _flood_sentence(tool: Json) -> str:
    """Return what a tool with large results costs, and the line that would avoid it."""
    name, position = printable(tool["name"], 40), tool["largest_at"]
    dollars = (tool["dollars"] or 0.0) * tool["unused_tokens"] / tool["tokens"]
    sentence = (
        f"{name} floods: {short_count(tool['unused_tokens'])} of its "
        f"{short_count(tool['tokens'])} tokens were never used{_about_dollars(dollars)}; its "
        f"largest result has {short_count(tool['largest'])} "
        f"(`contextrender show {position['session']} --turn {position['turn']}`). Add to the "
        f'agent\'s instructions: "Ask {name} for at most {FLOOD_TOKENS:,} tokens at a time."'
    )
    if not tool["excess_tokens"]:
        return sentence
    return (
        f"{sentence} It would have saved {short_count(tool['excess_tokens'])} tokens that nothing "
        f"used{_about_dollars(tool['excess_dollars'] or 0.0)}."
    )


def _row(tool: Json) -> list[Text]:
    """Return a row of the table: a cell for each of `HEADS`."""
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
    if amount is None:
        return "–"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _about_dollars(dollars: float) -> str:
    return f", about {_dollars(dollars)}" if dollars else ""


def _cost(tool: Json) -> tuple[float, int]:
    """Return a tool's dollars and, to order tools without a price, its tokens."""
    dollars = (tool["dollars"] or 0.0) + (tool["declared_dollars"] or 0.0)
    return dollars, 0 if dollars else tool["tokens"]
