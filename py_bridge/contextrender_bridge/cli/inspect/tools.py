"""Show what each tool costs: its results, its declaration, and how much of it was never used."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import Service, fitted, plain, present, thousands
from contextrender_bridge.printing import add_json, printable

NEWEST = 20
FLOOD = 4_000
"""Tokens from which a result is named."""
HEADS = ("tool", "results", "tokens", "never used", "dollars", "declared", "its dollars")
WEIGHTS = (0, 4, 6, 5, 7, 2, 3)
SUMMED = ("results", "tokens", "reused", "unused_tokens", "declared")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender tools`."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this session")
    parser.add_argument(
        "--limit", type=int, default=NEWEST, metavar="N", help="newest sessions (%(default)s)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tools of a session, or of the newest ones together."""
    with Service() as service:
        if args.session:
            names = [args.session]
        else:
            page = service.ask("list_sessions", limit=max(args.limit, 1))
            names = [view["session"] for view in page["sessions"]]
        sessions = [service.ask("inspect_session", session=name) for name in names]
    return present(args, summed(sessions), draw)


def summed(sessions: Iterable[Json]) -> Json:
    """Return the tools of the sessions together, the dearest first."""
    tools: dict[str, Json] = {}
    count = 0
    for view in sessions:
        count += 1
        for tool in view["tools"]:
            nothing = {**dict.fromkeys(SUMMED, 0), "dollars": None, "declared_dollars": None}
            total = tools.setdefault(tool["name"], {"name": tool["name"], **nothing, "largest": 0})
            for name in SUMMED:
                total[name] += tool[name]
            for name in ("dollars", "declared_dollars"):
                if tool[name] is not None:
                    total[name] = (total[name] or 0.0) + tool[name]
            if tool["largest"] > total["largest"]:
                where = {"session": view["session"]["session"], "turn": tool["largest_turn"]}
                total |= {"largest": tool["largest"], "largest_at": where}
    return {"sessions": count, "tools": sorted(tools.values(), key=lambda tool: -_cost(tool))}


def draw(view: Json) -> RenderableType:
    """Return one sentence on what to change, and the table."""
    if not view["tools"]:
        return Text("no tool was called or declared")
    rows = [_row(tool) for tool in view["tools"]]
    table = fitted(HEADS, rows, WEIGHTS, Console().width)
    return Group(Text("\n".join(advice(view))), Text(""), table)


def advice(view: Json) -> list[str]:
    """Return sentences: what floods, what is declared for nothing, and what to do about it."""
    tools, said = view["tools"], []
    floods = [tool for tool in tools if tool["largest"] >= FLOOD and tool["unused_tokens"]]
    if floods:
        tool = max(floods, key=lambda tool: tool["unused_tokens"])
        at = tool["largest_at"]
        dollars = (tool["dollars"] or 0.0) * tool["unused_tokens"] / tool["tokens"]
        said.append(
            f"{printable(tool['name'], 40)} floods: {thousands(tool['unused_tokens'])} of its "
            f"{thousands(tool['tokens'])} tokens were never used{_about(dollars)}; its largest "
            f"result has {thousands(tool['largest'])} (`contextrender show {at['session']} "
            f"--turn {at['turn']}`)."
        )
    idle = [tool for tool in tools if tool["declared"] and not tool["results"]]
    if idle:
        tokens = sum(tool["declared"] for tool in idle)
        dollars = sum(tool["declared_dollars"] or 0.0 for tool in idle)
        names = ", ".join(printable(tool["name"], 30) for tool in idle[:3])
        more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
        said.append(
            f"Never called: {names}{more}; their declarations are {thousands(tokens)} tokens of "
            f"every request{_about(dollars)}. Switch them off in the agent."
        )
    return said or ["No tool floods, and every declared one was called."]


def _row(tool: Json) -> list[Text]:
    unused = f"{tool['unused_tokens'] / tool['tokens']:.0%}" if tool["tokens"] else "–"
    return [
        plain(tool["name"], "bold", 40),
        Text(f"{tool['results']:,}"),
        Text(thousands(tool["tokens"])),
        Text(unused),
        Text(_dollars(tool["dollars"])),
        Text(thousands(tool["declared"]) if tool["declared"] else "–"),
        Text(_dollars(tool["declared_dollars"])),
    ]


def _dollars(amount: float | None) -> str:
    return "–" if amount is None else f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _about(dollars: float) -> str:
    return f", about {_dollars(dollars)}" if dollars else ""


def _cost(tool: Json) -> float:
    known = (tool["dollars"] or 0.0) + (tool["declared_dollars"] or 0.0)
    return known or float(tool["tokens"]) * 1e-12
