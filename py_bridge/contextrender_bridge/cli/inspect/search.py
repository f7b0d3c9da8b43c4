"""Search the contents of sessions: results, calls and messages."""

from __future__ import annotations

import argparse

from rich.console import Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import Service, plain, present, table_of
from contextrender_bridge.printing import add_json

MOST_AT_ONCE = 100
BEFORE = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender search`."""
    parser.add_argument(
        "text", nargs="?", default="", metavar="TEXT", help="text to find; case does not matter"
    )
    parser.add_argument("--session", metavar="SESSION", help="only this session (all)")
    parser.add_argument(
        "--tool", default="", metavar="NAME", help="only calls and results of this tool"
    )
    parser.add_argument("--errors", action="store_true", help="only results of failed calls")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (%(default)s)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is found, newest first."""
    if not (args.text or args.tool or args.errors):
        raise CommandError("give a TEXT, a --tool or --errors.", 2)
    if args.limit < 1:
        raise CommandError("--limit is at least 1.", 2)
    with Service() as service:
        return present(args, look(service, args), draw)


def look(service: Service, args: argparse.Namespace) -> Json:
    """The newest matches, of as many pages as that takes; `next` says that there may be more."""
    whole: Json = {"matches": [], "sessions": 0, "events": 0, "next": ""}
    while whole["next"] is not None and len(whole["matches"]) < args.limit:
        page = service.ask(
            "search",
            query=args.text,
            session=args.session,
            tool=args.tool,
            errors=args.errors,
            limit=min(args.limit - len(whole["matches"]), MOST_AT_ONCE),
            cursor=whole["next"],
        )
        for name in ("matches", "sessions", "events"):
            whole[name] += page[name]
        whole["next"] = page["next"]
    return whole


def draw(view: Json) -> RenderableType:
    """A line for each place."""
    table = table_of()
    table.add_column("session", overflow="fold", ratio=1)
    for name in ("branch", "turn", "message"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what", overflow="fold", ratio=1)
    table.add_column("text", overflow="fold", ratio=3)
    for one in view["matches"]:
        table.add_row(
            plain(one["session"], "bold", 60),
            str(one["branch"]),
            str(one["turn"]),
            f"#{one['position']}",
            plain(f"{one['kind']} {one['name']}".strip(), "red" if one["failed"] else "", 60),
            _text(one),
        )
    told = f"{view['events']:,} messages, calls and results searched"
    if view["next"] is not None:
        told += "; --limit searches further back"
    return Group(table, Text(told, "dim")) if view["matches"] else Text(f"nothing found: {told}")


def _text(one: Json) -> Text:
    more = f" (and {one['count'] - 1} more)" if one["count"] > 1 else ""
    return Text.assemble(
        _part(one["text_before"][-BEFORE:]),
        _part(one["match"], "bold"),
        _part(one["text_after"]),
        Text(more, "dim"),
    )


def _part(text: str, style: str = "") -> Text:
    """A part of a line, with the white space at its ends as one space."""
    ends = (" " if text[:1].isspace() else "", " " if text[-1:].isspace() else "")
    return Text.assemble(ends[0], plain(text, style), ends[1] if text.strip() else "")
