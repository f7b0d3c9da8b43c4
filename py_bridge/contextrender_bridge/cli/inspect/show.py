"""Show a session as a timeline of its results; with --turn, one call's prompt and answer."""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.errors import NotFound
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import (
    ServiceClient,
    add_session_options,
    agent_text,
    headline,
    old_versions_note,
    print_view,
    short_count,
)
from contextrender_bridge.cli.inspect.show_call import (
    MARK_COMPLETE,
    MARK_EXCERPT,
    MARK_OMITTED,
    draw_call,
    provider_line,
)
from contextrender_bridge.printing import add_json, print_json, printable

MARK_USED, MARK_VISIBLE, MARK_MISSED = "●", "◦", "○"
STYLES = {
    MARK_COMPLETE: "blue",
    MARK_EXCERPT: "yellow",
    MARK_OMITTED: "dim",
    MARK_USED: "bold",
    MARK_VISIBLE: "dim",
    MARK_MISSED: "bold red",
}
WORDS = ("complete", "excerpt", "omitted", "used", "used, visible elsewhere", "missed")
"""The marks' meanings for the legend, in the order of `STYLES`."""
MIN_TURN_COLUMNS = 20
LABEL_WIDTH = 14
"""The characters of a line that a result's position and tokens take, beside its tool's name."""
MIN_NAME_WIDTH = 20
DEFAULT_MESSAGES = 200
MAX_LINES = 200
ANSWER_CHARS = 4000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender show`."""
    add_session_options(parser)
    parser.add_argument("--turn", type=int, metavar="N", help="show this model call")
    parser.add_argument(
        "--messages",
        type=int,
        metavar="N",
        help=f"with --turn: show the last N messages ({DEFAULT_MESSAGES}; 0: all)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the session's newest turns, or with `--turn` one call with its answer."""
    fields = {"session": args.session, "branch": args.branch}
    with ServiceClient() as service:
        if args.turn is None:
            if not args.json:
                # As many turns as fit; a negative start counts from the end.
                turn_count = max(MIN_TURN_COLUMNS, Console().width - LABEL_WIDTH)
                fields |= {"start": 1 - turn_count, "limit": turn_count}
            view = service.pages("timeline", ("turns",), **fields)
            totals = {} if args.json else service.totals(args.session, args.branch)
            return print_view(args, view, lambda view: draw(view, args.session, totals))
        if args.messages is not None or not args.json:
            window = DEFAULT_MESSAGES if args.messages is None else args.messages or None
            fields |= {"window": window, "rows": 0}
        view = service.ask("get_call", turn=args.turn, **fields)
        if args.json:
            return print_json(view)
        answer = _answer(service, view, args)
        page = {"session": args.session, "branch": args.branch, "start": args.turn, "limit": 1}
        (turn,) = service.ask("timeline", **page)["turns"]
    provider = provider_line(turn, view["price"])
    return print_view(args, view, lambda view: draw_call(view, args.session, answer, provider))


def _answer(service: ServiceClient, view: Json, args: argparse.Namespace) -> Json | None:
    """Return the message that answered a call, or None if it is not recorded yet."""
    fields = {"session": args.session, "branch": args.branch, "position": view["history_messages"]}
    try:
        return service.ask("read_message", characters=ANSWER_CHARS, **fields)
    except NotFound:
        return None


def draw(view: Json, session: str, totals: Json) -> RenderableType:
    """Return the timeline: a column for each of the newest turns, as many as fit.

    A legend explains the marks. Each listed result has a line with a mark for each turn.
    """
    names = [printable(name) for name in view["results"]["tools"]]
    longest_name = max(map(len, names), default=0)
    width = Console().width - LABEL_WIDTH
    # To show more turns, long names are cut, but not below a minimum.
    name_width = max(MIN_NAME_WIDTH, min(longest_name, width - MIN_TURN_COLUMNS))
    turn_columns = max(MIN_TURN_COLUMNS, width - name_width)
    turns = view["turns"][-turn_columns:]
    head = Text.assemble(
        agent_text(session, "bold"),
        f"  {view['turn_count'] - view['awaits_answer']} turns, "
        f"{len(view['results']['positions'])} results, "
        f"{view['policy']} with {_budget(view)} tokens. {headline(totals)}",
        old_versions_note(sum(len(turn["old_versions"]) for turn in turns)),
    )
    if not turns:
        return head
    legend = Text(f"turns {turns[0]['turn']} to {turns[-1]['turn']}:  ", "dim")
    for mark, word in zip(STYLES, WORDS, strict=True):
        legend.append(mark, STYLES[mark]).append(f" {word}  ", "dim")
    listed_results, unlisted_count = _listed_results(view["results"], turns)
    if unlisted_count:
        legend.append(
            f"\n{unlisted_count:,} results that were omitted throughout are not listed", "dim"
        )
    lines = [_line(view["results"], turns, number, name_width) for number in listed_results]
    return Group(head, legend, *lines)


def _budget(view: Json) -> str:
    """Return the session's budget, as a phrase before "tokens".

    For an automatic budget, it is the budget of the newest call, or "its own" before any call.
    """
    if isinstance(view["budget"], int):
        return short_count(view["budget"])
    return f"now {short_count(view['turns'][-1]['budget'])}" if view["turns"] else "its own"


def _listed_results(results: Json, turns: list[Json]) -> tuple[list[int], int]:
    """Return the numbers of the results to list, and how many are not listed.

    Results that came after the last turn are never listed. If there are many, results that none of
    the turns showed, used or missed are not listed.
    """
    all_results = range(min(turns[-1]["results"], len(results["positions"])))
    if len(all_results) <= MAX_LINES:
        return list(all_results), 0
    relevant: set[int] = set()
    for turn in turns:
        for first, length in (*_runs(turn["complete"]), *_runs(turn["substitutes"])):
            relevant.update(range(first, first + length))
        relevant.update(turn["uses"], turn["misses"])
    listed_results = sorted(relevant.intersection(all_results))
    return listed_results, len(all_results) - len(listed_results)


def _runs(flat_runs: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first number and the length of each run. `flat_runs` has them in turn."""
    return zip(flat_runs[::2], flat_runs[1::2], strict=True)


def _line(results: Json, turns: list[Json], number: int, name_width: int) -> Text:
    """Return a result's line: its position, tool and tokens, and a mark for each turn."""
    name = results["tools"][results["names"][number]]
    line = Text.assemble(
        (f"#{results['positions'][number]:<5}", "dim"),
        f"{printable(name, name_width):<{name_width}}",
        (f"{results['tokens'][number]:>6}  ", "dim"),
    )
    for turn in turns:
        if number >= turn["results"]:  # the result came later
            line.append(" ")
            continue
        mark = MARK_COMPLETE if _is_in_runs(turn["complete"], number) else MARK_OMITTED
        if _is_in_runs(turn["substitutes"], number):
            mark = MARK_EXCERPT
        if number in turn["misses"]:
            mark = MARK_MISSED
        elif number in turn["uses"]:
            # A result that was used while it was omitted had its values visible elsewhere.
            mark = MARK_VISIBLE if mark == MARK_OMITTED else MARK_USED
        line.append(mark, STYLES[mark])
    return line


def _is_in_runs(flat_runs: list[int], number: int) -> bool:
    # Only the last run that begins at or before the number can contain it.
    run = bisect_right(flat_runs[::2], number) - 1
    return run >= 0 and number < flat_runs[2 * run] + flat_runs[2 * run + 1]
