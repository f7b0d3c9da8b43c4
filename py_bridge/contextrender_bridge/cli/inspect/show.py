"""Show a session as a timeline of its results; with --turn, what that model call was shown."""

from __future__ import annotations

import argparse
from bisect import bisect_right

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import (
    Service,
    add_session,
    plain,
    present,
    table_of,
    thousands,
)
from contextrender_bridge.printing import add_json, printable

COMPLETE, REPLACED, OMITTED, USED, MISSED = "█", "▒", "·", "●", "○"
STYLES = {COMPLETE: "blue", REPLACED: "yellow", OMITTED: "dim", USED: "bold", MISSED: "bold red"}
LEAST_COLUMNS = 20
LABEL = 14
LEAST_NAME = 20
MESSAGES = 200
MOST_LINES = 200
MOST_VALUES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender show`."""
    add_session(parser)
    parser.add_argument("--turn", type=int, metavar="N", help="show this model call")
    parser.add_argument(
        "--messages",
        type=int,
        metavar="N",
        help=f"with --turn: how many of the last ({MESSAGES}; 0: all)",
    )
    parser.add_argument("--misses", action="store_true", help="show what its calls lacked")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the session, what its calls lacked, or one call."""
    with Service() as service:
        service.tell_damage(args.session, args.branch)
        named = {"session": args.session, "branch": args.branch}
        drawn = draw
        if args.misses:
            view, drawn = service.pages("misses", ("misses", "turns"), **named), draw_misses
        elif args.turn is None:
            if not args.json:
                newest = max(LEAST_COLUMNS, Console().width - LABEL)
                named |= {"start": 1 - newest, "limit": newest}
            view = service.pages("timeline", ("turns",), **named)
        else:
            if args.messages is not None or not args.json:
                window = MESSAGES if args.messages is None else args.messages or None
                named |= {"window": window, "rows": 0}
            view, drawn = service.ask("show_call", turn=args.turn, **named), draw_call
    return present(args, view, lambda view: drawn(view, args.session))


def draw(view: Json, session: str) -> RenderableType:
    """The timeline: as many of the newest turns as the terminal is wide."""
    names = [printable(name) for name in view["results"]["tools"]]
    wide = min(max(map(len, names), default=0), Console().width - LABEL - LEAST_COLUMNS)
    wide = max(wide, LEAST_NAME)
    room = max(LEAST_COLUMNS, Console().width - LABEL - wide)
    turns = view["turns"][-room:]
    head = Text.assemble(
        plain(session, "bold"),
        f"  {view['last'] - view['waiting']} turns, {len(view['results']['positions'])} results,"
        f" {view['policy']} with {_budget(view)} tokens",
    )
    if not turns:
        return head
    legend = Text(f"turns {turns[0]['turn']} to {turns[-1]['turn']}:  ", "dim")
    for mark, word in zip(STYLES, ("shown", "excerpt", "omitted", "used", "missed"), strict=True):
        legend.append(mark, STYLES[mark]).append(f" {word}  ", "dim")
    seen = _seen(view["results"], turns)
    out = min(turns[-1]["results"], len(view["results"]["positions"])) - len(seen)
    if out:
        legend.append(f"\n{out:,} results that were omitted throughout are not listed", "dim")
    lines = [_line(view["results"], turns, number, wide) for number in seen]
    return Group(head, legend, *lines)


def draw_call(view: Json, session: str) -> RenderableType:
    """One call: its budget, and every message with what was shown of it."""
    call = view["explain"]
    head = Text.assemble(
        plain(session, "bold"),
        f"  turn {call['turn']} of {view['last']}: {call['tokens']['after']} of {call['budget']}"
        f" tokens ({call['tokens']['before']} in all), {call['policy']}",
    )
    table = table_of("#", "turn", "tokens", "", left=("",))
    table.add_column("message", ratio=1)
    told = 0
    for line in view["messages"]:
        if line["position"] > told:
            table.add_row("", "", "", "…", f"{line['position'] - told:,} earlier", style="dim")
        told = line["position"] + 1
        calls = [call for call in line["calls"] if call["shown"]]
        shown = line["shown"] if not calls else "whole"
        said = line["text"] or " ".join(f"{call['name']} {call['text']}" for call in line["calls"])
        table.add_row(
            str(line["position"]),
            str(line["turn"]),
            str(line["tokens"] + sum(call["tokens"] for call in line["calls"])),
            Text({"whole": COMPLETE, "omitted": OMITTED}.get(shown, REPLACED)),
            Text.assemble(
                plain(line["name"] or line["role"], "bold"), " ", plain(said, longest=200)
            ),
            style="dim" if shown == "omitted" else "",
        )
    return Group(head, *(plain(warning, "yellow") for warning in call["warnings"]), table)


def draw_misses(view: Json, session: str) -> RenderableType:
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
    values = ", ".join(miss["values"][:MOST_VALUES])
    if len(miss["values"]) > MOST_VALUES:
        values += f" and {len(miss['values']) - MOST_VALUES} more"
    return "; ".join(filter(None, ["called again" if miss["again"] else "", values]))


def _budget(view: Json) -> str:
    """The session's own, or that of its newest call where the budget finds itself."""
    if isinstance(view["budget"], int):
        return thousands(view["budget"])
    return f"now {thousands(view['turns'][-1]['budget'])}" if view["turns"] else "its own"


def _seen(results: Json, turns: list[Json]) -> list[int]:
    """The results there were by the last of the turns; of many, those that were of any account."""
    everything = range(min(turns[-1]["results"], len(results["positions"])))
    if len(everything) <= MOST_LINES:
        return list(everything)
    shown: set[int] = set()
    for turn in turns:
        for runs in (turn["complete"], turn["replaced"]):
            for first, length in zip(runs[::2], runs[1::2], strict=True):
                shown.update(range(first, first + length))
        shown.update(turn["uses"], turn["missed"])
    return sorted(shown.intersection(everything))


def _line(results: Json, turns: list[Json], number: int, wide: int) -> Text:
    name = results["tools"][results["names"][number]]
    line = Text.assemble(
        (f"#{results['positions'][number]:<5}", "dim"),
        f"{printable(name, wide):<{wide}}",
        (f"{results['tokens'][number]:>6}  ", "dim"),
    )
    for turn in turns:
        if number >= turn["results"]:
            line.append(" ")
            continue
        mark = COMPLETE if _within(turn["complete"], number) else OMITTED
        if _within(turn["replaced"], number):
            mark = REPLACED
        if number in turn["missed"]:
            mark = MISSED
        elif number in turn["uses"]:
            mark = USED
        line.append(mark, STYLES[mark])
    return line


def _within(runs: list[int], number: int) -> bool:
    place = bisect_right(runs[::2], number) - 1
    return place >= 0 and number < runs[2 * place] + runs[2 * place + 1]
