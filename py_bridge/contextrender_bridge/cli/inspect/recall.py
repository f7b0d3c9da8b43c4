"""Print complete results of a session, by position or by query."""

import argparse

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import ServiceClient, add_session_options
from contextrender_bridge.dialects.contents import plain_text
from contextrender_bridge.printing import add_count, add_json, print_json, printable

DEFAULT_LIMIT = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender recall`."""
    add_session_options(parser)
    parser.add_argument(
        "position", nargs="*", type=int, metavar="POSITION", help="position of a result"
    )
    parser.add_argument("--query", metavar="TEXT", help="words or values to search for")
    add_count(parser, "--limit", f"with --query: at most N results ({DEFAULT_LIMIT})")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the complete results at the positions, or the results that match the query.

    Before each result, print a line that names it. Raise CommandError unless either positions or a
    query are given.
    """
    if bool(args.position) == bool(args.query):  # both or neither
        raise CommandError("give either the positions of results or a --query.", 2)
    fields = {
        "results": args.position or None,
        "query": args.query,
        "limit": (args.limit or DEFAULT_LIMIT) if args.query else None,
    }
    with ServiceClient() as service:
        view = service.ask("recall", session=args.session, branch=args.branch, **fields)
    if args.json:
        return print_json(view)
    for result in view["results"]:
        print(_head(result))
        text = plain_text(result["message"].get("content"))
        print("".join(char if char.isprintable() or char in "\n\t" else "·" for char in text))
    return 0


def _head(result: Json) -> str:
    """Return a line that names a result: its position, its call and its tokens."""
    call = printable(f"{result['name']} {result['arguments']}", 100)
    newer_result = result["superseded_by"]
    note = "" if newer_result is None else f", superseded by #{newer_result}"
    return f"#{result['position']} {call} ({result['tokens']} tokens{note})"
