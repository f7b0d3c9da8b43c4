"""Show a session as a timeline of its results; with --turn, one call's prompt and answer."""

import argparse

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
    with ServiceClient() as service:
        if args.turn is None:
            return _show_session(service, args)
        return _show_call(service, args)


def _show_session(service: ServiceClient, args: argparse.Namespace) -> int:
    """Print the timeline of the newest turns, as many as fit into the terminal.

    With --json, print all turns.
    """
    fields = {"session": args.session, "branch": args.branch}
    if args.json:
        return print_json(service.pages("timeline", ("turns",), **fields))
    turn_count = max(MIN_TURN_COLUMNS, Console().width - LABEL_WIDTH)
    start = 1 - turn_count  # zero and negative numbers count from the end
    view = service.pages("timeline", ("turns",), start=start, limit=turn_count, **fields)
    totals = service.totals(args.session, args.branch)
    return print_view(args, view, lambda view: draw(view, args.session, totals))


def _show_call(service: ServiceClient, args: argparse.Namespace) -> int:
    """Print one call: its prompt, what the provider reported, and its answer.

    The table has the last `DEFAULT_MESSAGES` messages if no number is given. JSON has all messages
    unless a number is given.
    """
    place = {"session": args.session, "branch": args.branch}
    window_fields: Json = {}
    if args.messages is not None or not args.json:
        window = DEFAULT_MESSAGES if args.messages is None else args.messages
        all_messages = None  # 0 on the command line
        window_fields = {"window": window or all_messages, "rows": 0}
    view = service.ask("get_call", turn=args.turn, **window_fields, **place)
    if args.json:
        return print_json(view)
    answer = _answer(service, view["history_messages"], place)
    (turn,) = service.ask("timeline", start=args.turn, limit=1, **place)["turns"]
    provider = provider_line(turn, view["price"])
    return print_view(args, view, lambda view: draw_call(view, args.session, answer, provider))


def _answer(service: ServiceClient, position: int, place: Json) -> Json | None:
    """Return the message at a position, where a call's answer is; None if not recorded yet.

    The position is the number of messages in the call's history. `place` has the session and the
    branch.
    """
    try:
        return service.ask("read_message", characters=ANSWER_CHARS, position=position, **place)
    except NotFound:
        return None


def draw(view: Json, session: str, totals: Json) -> RenderableType:
    """Return the timeline: a headline, a legend of the marks, and a line for each listed result.

    A line has a mark for each of the newest turns, as many as fit. `view` is the reply of
    `timeline`.
    """
    name_width, turn_columns = _column_widths(view["results"]["tools"])
    turns = [_with_sets(turn) for turn in view["turns"][-turn_columns:]]
    # A call without an answer is not a turn yet, and the totals do not count it.
    head = Text.assemble(
        agent_text(session, "bold"),
        f"  {totals['turn_count']} turns, {len(view['results']['positions'])} results, "
        f"{view['policy']} with {_budget(view)} tokens. {headline(totals)}",
        old_versions_note(sum(len(turn["old_versions"]) for turn in turns)),
    )
    if not turns:
        return head
    legend = Text(f"turns {turns[0]['turn']} to {turns[-1]['turn']}:  ", "dim")
    for mark, word in zip(STYLES, WORDS, strict=True):
        legend.append(mark, STYLES[mark]).append(f" {word}  ", "dim")
    # Of very many results, list only those that were relevant to these turns.
    listed_results, unlisted_count = _listed_results(view["results"], turns)
    if unlisted_count:
        legend.append(
            f"\n{unlisted_count:,} results that were omitted throughout are not listed", "dim"
        )
    lines = [_line(view["results"], turns, number, name_width) for number in listed_results]
    return Group(head, legend, *lines)


def _column_widths(tools: list[str]) -> tuple[int, int]:
    """Return the width of the tools' names, and the number of turns that fit beside them.

    Long names are cut to show `MIN_TURN_COLUMNS` turns, but not below `MIN_NAME_WIDTH`.
    """
    longest_name = max((len(printable(tool)) for tool in tools), default=0)
    width = Console().width - LABEL_WIDTH
    name_width = max(MIN_NAME_WIDTH, min(longest_name, width - MIN_TURN_COLUMNS))
    return name_width, max(MIN_TURN_COLUMNS, width - name_width)


def _budget(view: Json) -> str:
    """Return the session's budget as a phrase that "tokens" follows, such as `12.0K`.

    An automatic budget is written as that of the newest call, such as `now 12.0K`, or as `its own`
    if there is no call.
    """
    if isinstance(view["budget"], int):
        return short_count(view["budget"])
    return f"now {short_count(view['turns'][-1]['budget'])}" if view["turns"] else "its own"


def _listed_results(results: Json, turns: list[Json]) -> tuple[list[int], int]:
    """Return the numbers of the results to list, and how many other results are left out.

    If there are more than `MAX_LINES` results, list only the results that one of the turns showed,
    used or missed. Results that came after the last turn are neither listed nor counted.
    """
    results_of_turns = range(min(turns[-1]["results"], len(results["positions"])))
    if len(results_of_turns) <= MAX_LINES:
        return list(results_of_turns), 0
    relevant: set[int] = set()
    for turn in turns:
        relevant.update(turn["complete"], turn["substitutes"], turn["uses"], turn["misses"])
    listed_results = sorted(relevant.intersection(results_of_turns))
    return listed_results, len(results_of_turns) - len(listed_results)


def _with_sets(turn: Json) -> Json:
    """Return a turn with sets of results instead of ranges: {3, 4, 9} instead of [3, 2, 9, 1]."""
    sets = {}
    for name in ("complete", "substitutes"):
        ranges = zip(turn[name][::2], turn[name][1::2], strict=True)
        sets[name] = {first + offset for first, length in ranges for offset in range(length)}
    return turn | sets


def _line(results: Json, turns: list[Json], number: int, name_width: int) -> Text:
    """Return the line of result `number`: its position, tool and tokens, and a mark per turn.

    Turns before the result have no mark. The tool's name is cut to `name_width`.
    """
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
        mark = _mark(turn, number)
        line.append(mark, STYLES[mark])
    return line


def _mark(turn: Json, number: int) -> str:
    """Return the mark of a result at a turn: how it was used or, if it was not, how it was shown.

    A use has priority, because the timeline is to show which results were needed.
    """
    is_complete, is_excerpt = number in turn["complete"], number in turn["substitutes"]
    if number in turn["misses"]:
        return MARK_MISSED
    if number in turn["uses"]:
        # If the result was omitted, the used values were visible elsewhere.
        return MARK_USED if is_complete or is_excerpt else MARK_VISIBLE
    if is_excerpt:
        return MARK_EXCERPT
    return MARK_COMPLETE if is_complete else MARK_OMITTED
