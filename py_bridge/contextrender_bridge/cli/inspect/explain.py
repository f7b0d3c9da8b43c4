"""Explain a model call: why each result was shown or not.

It lists each result's age, reuse (c), relevance (s), usefulness (U) and tokens.
"""

import argparse

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from contextrender_bridge.base.setting_kinds import as_budget
from contextrender_bridge.base.settings import parse_setting
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import (
    ServiceClient,
    add_session_options,
    agent_text,
    new_table,
    print_view,
    remaining_tokens_note,
)
from contextrender_bridge.printing import add_json

DEFAULT_ROWS = 200
WIDE_COLUMNS = 120
"""The terminal's width, in characters, from which the measures fit beside names and reasons."""
WIDE_MEASURES = {"relevance": "s", "usefulness": "U", "score": "score"}
"""The measures of a result by field, with their columns' titles (docs/method.md)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender explain`."""
    add_session_options(parser)
    parser.add_argument("--turn", type=int, metavar="N", help="which model call (the next one)")
    parser.add_argument(
        "--budget",
        type=lambda text: parse_setting(as_budget, text, "--budget"),
        metavar="N",
        help="use this budget instead of the call's",
    )
    parser.add_argument("--policy", metavar="NAME", help="use this policy instead of the call's")
    parser.add_argument(
        "--rows", type=int, metavar="N", help=f"show at most N results ({DEFAULT_ROWS}; 0: all)"
    )
    parser.add_argument("--uses", action="store_true", help="list the uses counted in c (reuse)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print why each result of a call is shown or omitted.

    The table has the results in the order of the selection, `DEFAULT_ROWS` of them if no number is
    given. JSON has all results unless a number is given.
    """
    with ServiceClient() as service:
        fields: Json = {"turn": args.turn, "budget": args.budget, "policy": args.policy}
        if args.rows is not None or not args.json:
            row_limit = DEFAULT_ROWS if args.rows is None else args.rows
            all_rows = None  # 0 on the command line
            fields |= {"sort": "order", "rows": row_limit or all_rows}
        view = service.ask("explain", session=args.session, branch=args.branch, **fields)
    return print_view(args, view, lambda view: draw(view, args))


def draw(view: Json, args: argparse.Namespace) -> RenderableType:
    """Return a headline, the warnings, and a table of the results, in the order of the reply.

    `view` is the reply of `explain`. A last line counts the results that it leaves out.
    """
    head = Text.assemble(
        agent_text(args.session, "bold"),
        f"  turn {view['turn']}: {view['tokens_after']} of {view['budget']} tokens"
        f" ({view['tokens_before']} in all, {view['text_tokens']} of text), {view['policy']}",
    )
    warnings = [agent_text(warning, "yellow") for warning in view["warnings"]]
    table = _results_table(view["results"], with_uses=args.uses)
    hidden_count = view["count"] - len(view["results"])
    footer = [Text(f"{hidden_count:,} more; --rows 0 shows all", "dim")] if hidden_count else []
    return Group(head, *warnings, table, *footer)


def _results_table(results: list[Json], *, with_uses: bool) -> Table:
    """Return a table with a row for each result, and `with_uses` also a row for each of its uses.

    The columns c, s and U are the measures of docs/method.md: reuse, relevance and usefulness. In a
    narrow terminal, s, U and the score are left out.
    """
    measures = WIDE_MEASURES if Console().width >= WIDE_COLUMNS else {}
    titles = ("#", "tool", "age", "c", *measures.values(), "tokens", "taken")
    table = new_table(*titles, text_columns=("tool",))
    table.add_column("", ratio=1)  # the reason, or the use
    # `taken` is the place of the result in the order of the selection; empty if it is omitted.
    for row in results:
        table.add_row(
            str(row["position"]),
            agent_text(row["name"]),
            str(row["age"]),
            f"{row['reuse']:.2f}",
            *(_number(row[measure]) for measure in measures),
            str(row["tokens"]),
            "" if row["order"] is None else str(row["order"]),
            _reason(row),
            style="dim" if row["display"] == "omitted" else "",
        )
        if with_uses:
            empty_cells = [""] * len(titles)
            for use in row["uses"]:
                table.add_row(*empty_cells, agent_text(_use_line(use), "cyan"))
    return table


def _use_line(use: Json) -> str:
    """Return a line on a use: its turn, its tool, and each used value with its weight.

    If n results have the value, the use adds 1/n to the reuse of each of them.
    """
    values = ", ".join(f"{value['value']} (1/{value['results']})" for value in use["values"])
    return f"turn {use['turn']} {use['name'] or 'text'}: {values}"


def _reason(row: Json) -> Text:
    """Return the form in which a result is shown, and why it is shown or omitted.

    The usual forms, complete and omitted, are left out, and so is the usual reason, `selected`.
    """
    parts = [row["display"]] if row["display"] not in ("complete", "omitted") else []
    if row["reason"] != "selected":
        parts.append(row["reason"] + remaining_tokens_note(row))
    return agent_text("; ".join(parts))


def _number(value: float | None) -> str:
    """Return a measure with three decimals; a dash if it is not known."""
    return "–" if value is None else f"{value:.3f}"
