"""Explain a model call: every result's age, c, s, U, tokens, and why it was shown or not."""

from __future__ import annotations

import argparse

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.setting_kinds import as_budget
from contextrender_bridge.base.settings import checked
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import (
    Service,
    add_session,
    plain,
    present,
    room,
    table_of,
)
from contextrender_bridge.printing import add_json

ROWS = 200
WIDE = 120
"""Columns from which there is room for s, U and the score beside whole names and the reasons."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender explain`."""
    add_session(parser)
    parser.add_argument("--turn", type=int, metavar="N", help="which model call (the next one)")
    parser.add_argument(
        "--budget",
        type=lambda text: checked(as_budget, text, "--budget"),
        metavar="N",
        help="instead of the call's own",
    )
    parser.add_argument("--policy", metavar="NAME", help="instead of the call's own")
    parser.add_argument(
        "--rows", type=int, metavar="N", help=f"most results to show ({ROWS}; 0: all)"
    )
    parser.add_argument("--uses", action="store_true", help="list the uses counted in c")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    with Service() as service:
        asked: Json = {"turn": args.turn, "budget": args.budget, "policy": args.policy}
        if args.rows is not None or not args.json:
            rows = ROWS if args.rows is None else args.rows or None
            asked |= {"sort": "order", "rows": rows}
        view = service.ask("explain", session=args.session, branch=args.branch, **asked)
    return present(args, view, lambda view: draw(view, args))


def draw(view: Json, args: argparse.Namespace) -> RenderableType:
    """The results, those taken first and in that order, then the others, newest first."""
    head = Text.assemble(
        plain(args.session, "bold"),
        f"  turn {view['turn']}: {view['tokens_after']} of {view['budget']} tokens"
        f" ({view['tokens_before']} in all, {view['text_tokens']} of text), {view['policy']}",
    )
    wide = Console().width >= WIDE
    numbers = ("relevance", "usefulness", "score") if wide else ()
    heads = ("#", "tool", "age", "c", *("s", "U", "score") * wide, "tokens", "taken")
    table = table_of(*heads, left=("tool",))
    table.add_column("", ratio=1)
    for row in view["results"]:
        table.add_row(
            str(row["position"]),
            plain(row["name"]),
            str(row["age"]),
            f"{row['reuse']:.2f}",
            *(_number(row[name]) for name in numbers),
            str(row["tokens"]),
            "" if row["order"] is None else str(row["order"]),
            _why(row),
            style="dim" if row["display"] == "omitted" else "",
        )
        if args.uses:
            for use in row["uses"]:
                values = ", ".join(f"{one['value']} (1/{one['results']})" for one in use["values"])
                said = f"turn {use['turn']} {use['name'] or 'text'}: {values}"
                table.add_row(*[""] * (6 + len(numbers)), plain(said, "cyan"))
    more = view["count"] - len(view["results"])
    rest = [Text(f"{more:,} more; --rows 0 shows all", "dim")] if more else []
    return Group(head, *(plain(warning, "yellow") for warning in view["warnings"]), table, *rest)


def _why(row: Json) -> Text:
    said = [row["display"]] if row["display"] not in ("complete", "omitted") else []
    if row["reason"] != "selected":
        said.append(row["reason"] + room(row))
    return plain("; ".join(said))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
