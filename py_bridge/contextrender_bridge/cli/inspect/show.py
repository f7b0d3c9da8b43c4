"""Show a session as a timeline of its results; with --turn, one call's prompt and answer."""

from __future__ import annotations

import argparse
from bisect import bisect_right

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.errors import NotFound
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import (
    Service,
    add_session,
    headline,
    plain,
    present,
    table_of,
    thousands,
)
from contextrender_bridge.printing import add_json, printable

COMPLETE, REPLACED, OMITTED, USED, ELSEWHERE, MISSED = "█", "▒", "·", "●", "◦", "○"
STYLES = {
    COMPLETE: "blue",
    REPLACED: "yellow",
    OMITTED: "dim",
    USED: "bold",
    ELSEWHERE: "dim",
    MISSED: "bold red",
}
WORDS = ("complete", "excerpt", "omitted", "used", "used, visible elsewhere", "missed")
LEAST_COLUMNS = 20
LABEL = 14
LEAST_NAME = 20
MESSAGES = 200
MOST_LINES = 200
ANSWER_CHARACTERS = 4000


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
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the session, or one call with its answer."""
    named = {"session": args.session, "branch": args.branch}
    with Service() as service:
        if args.turn is None:
            if not args.json:
                newest = max(LEAST_COLUMNS, Console().width - LABEL)
                named |= {"start": 1 - newest, "limit": newest}
            view = service.pages("timeline", ("turns",), **named)
            totals = {} if args.json else service.totals(args.session, args.branch)
            return present(args, view, lambda view: draw(view, args.session, totals))
        if args.messages is not None or not args.json:
            window = MESSAGES if args.messages is None else args.messages or None
            named |= {"window": window, "rows": 0}
        view = service.ask("get_call", turn=args.turn, **named)
        answer = None if args.json else _answer(service, view, args)
    return present(args, view, lambda view: draw_call(view, args.session, answer))


def _answer(service: Service, view: Json, args: argparse.Namespace) -> Json | None:
    """Return the message that answered a call; None if it is not recorded yet."""
    fields = {"session": args.session, "branch": args.branch, "position": view["history_messages"]}
    try:
        return service.ask("read_message", characters=ANSWER_CHARACTERS, **fields)
    except NotFound:
        return None


def draw(view: Json, session: str, totals: Json) -> RenderableType:
    """The timeline: as many of the newest turns as the terminal is wide."""
    names = [printable(name) for name in view["results"]["tools"]]
    wide = min(max(map(len, names), default=0), Console().width - LABEL - LEAST_COLUMNS)
    wide = max(wide, LEAST_NAME)
    room = max(LEAST_COLUMNS, Console().width - LABEL - wide)
    turns = view["turns"][-room:]
    head = Text.assemble(
        plain(session, "bold"),
        f"  {view['turn_count'] - view['awaits_answer']} turns, "
        f"{len(view['results']['positions'])} results, "
        f"{view['policy']} with {_budget(view)} tokens. {headline(totals)}",
    )
    if not turns:
        return head
    legend = Text(f"turns {turns[0]['turn']} to {turns[-1]['turn']}:  ", "dim")
    for mark, word in zip(STYLES, WORDS, strict=True):
        legend.append(mark, STYLES[mark]).append(f" {word}  ", "dim")
    seen = _seen(view["results"], turns)
    out = min(turns[-1]["results"], len(view["results"]["positions"])) - len(seen)
    if out:
        legend.append(f"\n{out:,} results that were omitted throughout are not listed", "dim")
    lines = [_line(view["results"], turns, number, wide) for number in seen]
    return Group(head, legend, *lines)


def draw_call(view: Json, session: str, answer: Json | None) -> RenderableType:
    """One call: its budget, and every message with what was shown of it."""
    call = view["explain"]
    head = Text.assemble(
        plain(session, "bold"),
        f"  turn {call['turn']} of {view['turn_count']}: {call['tokens_after']} of {call['budget']}"
        f" tokens ({call['tokens_before']} in all), {call['policy']}",
    )
    table = table_of("#", "turn", "tokens", "", left=("",))
    table.add_column("message", ratio=1)
    told = 0
    for line in view["messages"]:
        if line["position"] > told:
            table.add_row("", "", "", "…", f"{line['position'] - told:,} earlier", style="dim")
        told = line["position"] + 1
        calls = [call for call in line["calls"] if call["in_prompt"]]
        shown = line["display"] if not calls else "complete"
        said = line["text"] or " ".join(f"{call['name']} {call['text']}" for call in line["calls"])
        table.add_row(
            str(line["position"]),
            str(line["turn"]),
            str(line["tokens"] + sum(call["tokens"] for call in line["calls"])),
            Text({"complete": COMPLETE, "omitted": OMITTED}.get(shown, REPLACED)),
            Text.assemble(
                plain(line["name"] or line["role"], "bold"), " ", plain(said, longest=200)
            ),
            style="dim" if shown == "omitted" else "",
        )
    warnings = [plain(warning, "yellow") for warning in call["warnings"]]
    return Group(head, *warnings, table, *(draw_answer(answer) if answer else ()))


def draw_answer(answer: Json) -> list[RenderableType]:
    """Return the answer's text and calls."""
    lines: list[RenderableType] = [Text(f"\nanswer, message {answer['position']}:", "bold")]
    if answer["text"]:
        more = answer["length"] - len(answer["text"])
        lines.append(plain(answer["text"]))
        lines += [Text(f"… {more:,} more characters", "dim")] if more > 0 else []
    for call in answer["calls"]:
        name = plain(call["name"], "bold")
        lines.append(Text.assemble(("→ ", "dim"), name, " ", plain(call["arguments"])))
    return lines


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
        for runs in (turn["complete"], turn["substitutes"]):
            for first, length in zip(runs[::2], runs[1::2], strict=True):
                shown.update(range(first, first + length))
        shown.update(turn["uses"], turn["misses"])
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
        if _within(turn["substitutes"], number):
            mark = REPLACED
        if number in turn["misses"]:
            mark = MISSED
        elif number in turn["uses"]:
            mark = ELSEWHERE if mark == OMITTED else USED
        line.append(mark, STYLES[mark])
    return line


def _within(runs: list[int], number: int) -> bool:
    place = bisect_right(runs[::2], number) - 1
    return place >= 0 and number < runs[2 * place] + runs[2 * place + 1]
