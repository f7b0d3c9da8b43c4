"""Search the contents of sessions: results, calls and messages."""

import argparse

from rich.console import Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import ServiceClient, agent_text, new_table, print_view
from contextrender_bridge.printing import add_count, add_json

PAGE_SIZE = 100
CONTEXT_CHARS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender search`."""
    parser.add_argument(
        "text", nargs="?", default="", metavar="TEXT", help="text to find, in any letter case"
    )
    parser.add_argument("--session", metavar="SESSION", help="only this session (all)")
    parser.add_argument(
        "--tool", default="", metavar="NAME", help="only calls and results of this tool"
    )
    parser.add_argument("--errors", action="store_true", help="only results of failed calls")
    add_count(parser, "--limit", "show at most N matches (%(default)s)", 20)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the matches, newest first."""
    if not (args.text or args.tool or args.errors):
        raise CommandError("give a TEXT, a --tool or --errors.", 2)
    if args.limit < 1:
        raise CommandError("--limit must be at least 1.", 2)
    with ServiceClient() as service:
        return print_view(args, find_matches(service, args), draw)


def find_matches(service: ServiceClient, args: argparse.Namespace) -> Json:
    """Request pages until there are --limit matches or no more, and return them as one reply.

    The newest match is first. `next` of the reply is None if there are no more matches.
    """
    # The empty cursor requests the first page.
    result: Json = {"matches": [], "sessions": 0, "events": 0, "next": ""}
    while result["next"] is not None and len(result["matches"]) < args.limit:
        page = service.ask(
            "search",
            query=args.text,
            session=args.session,
            tool=args.tool,
            errors=args.errors,
            limit=min(args.limit - len(result["matches"]), PAGE_SIZE),
            cursor=result["next"],
        )
        for field in ("matches", "sessions", "events"):
            result[field] += page[field]
        result["next"] = page["next"]
    return result


def draw(view: Json) -> RenderableType:
    """Return a table with a row for each match, and a line on what was searched."""
    table = new_table()
    table.add_column("session", overflow="fold", ratio=1)
    for title in ("branch", "turn", "message"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("kind", overflow="fold", ratio=1)
    table.add_column("text", overflow="fold", ratio=3)
    for match in view["matches"]:
        # The kind and the tool's name, such as `result bash`. A failed call's result is red.
        kind = f"{match['kind']} {match['name']}".strip()
        table.add_row(
            agent_text(match["session"], "bold", 60),
            str(match["branch"]),
            str(match["turn"]),
            f"#{match['position']}",
            agent_text(kind, "red" if match["failed"] else "", 60),
            _text(match),
        )
    search_note = f"{view['events']:,} messages, calls and results searched"
    if view["next"] is not None:
        search_note += "; --limit searches further back"
    if not view["matches"]:
        return Text(f"nothing found: {search_note}")
    return Group(table, Text(search_note, "dim"))


def _text(match: Json) -> Text:
    """Return a part of a text, with the first match in bold, and a note on the other matches."""
    other_count = match["count"] - 1
    more_note = f" (and {other_count} more)" if other_count else ""
    return Text.assemble(
        _part(match["text_before"][-CONTEXT_CHARS:]),
        _part(match["match"], "bold"),
        _part(match["text_after"]),
        Text(more_note, "dim"),
    )


def _part(text: str, style: str = "") -> Text:
    """Return a part of a line, safe to print, in a style.

    `agent_text` removes white space at the ends. So if there was some, add one space there, because
    the next part follows.
    """
    start = " " if text[:1].isspace() else ""
    end = " " if text[-1:].isspace() and text.strip() else ""
    return Text.assemble(start, agent_text(text, style), end)
