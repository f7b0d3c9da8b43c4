"""Say what all sessions saved: counted when calls were made, so that every one counts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from contextrender_bridge.cli.look.asking import Service, add_watch, plain, present, thousands
from contextrender_bridge.printing import add_json
from contextrender_bridge.setting_kinds import PRICE_EXAMPLE
from contextrender_bridge.wire import Json

GROUPS = ("day", "model", "client", "policy", "sent")
SUMMED = ("calls", "full", "capped", "prompt", "drawn", "seen", "billed")
MONEY = ("cost", "full_cost", "billed_cost", "whole_cost")
TERMS = (
    "full: prompt tokens with the whole history, at most the model's window; sent: those that went "
    "to the model. Dollars are by list or own prices, with what the call before had sent taken "
    "from the provider's cache. billed: by the provider's own counts; whole: what these calls "
    "would have been with the whole history, about. in view: results that answers drew on and had "
    "complete, so far: a run that goes on may yet draw on others."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender savings`."""
    parser.add_argument("--by", choices=GROUPS, default="day", help="a line for each (%(default)s)")
    parser.add_argument("--since", default="", metavar="DAY", help="such as 2026-01-31 (all)")
    parser.add_argument(
        "--price", action="append", default=[], metavar="PRICE", help=f"own, as {PRICE_EXAMPLE}"
    )
    add_json(parser)
    add_watch(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    with Service() as service:
        return present(
            args,
            lambda: service.ask("total_savings", since=args.since, prices=args.price),
            lambda view: draw(view, args.by),
        )


def grouped(rows: Sequence[Json], by: str) -> dict[str, Json]:
    """Rows added up by one of their names. `unpriced` calls are of models without a price: dollars
    are of the others."""
    found: dict[str, Json] = {}
    for row in rows:
        nothing = dict.fromkeys((*SUMMED, *MONEY, "unpriced"), 0)
        total = found.setdefault(str(row[by]) or "–", nothing)
        for name in SUMMED:
            total[name] += row[name]
        for name in MONEY:
            total[name] += row[name] or 0
        if row["cost"] is None:
            total["unpriced"] += row["calls"]
    return found


def draw(view: Json, by: str) -> RenderableType:
    """The table by one of `GROUPS`, a loss in red."""
    if not view["rows"]:
        return Text("no call has been counted yet")
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column(by, overflow="fold")
    names = ("calls", "full", "sent", "saved", "cost", "full cost", "billed", "whole", "in view")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    groups = grouped(view["rows"], by)
    everything = grouped([{**row, "all": "all"} for row in view["rows"]], "all")
    for name, total in [*groups.items(), *everything.items()]:
        table.add_row(*_line(name, total))
    told = f"{view['counted']} of {view['sessions']} sessions have counted calls. "
    if unpriced := sum(total["unpriced"] for total in everything.values()):
        told += f"{unpriced:,} calls are of models without a price: set one with --price. "
    return Group(table, Text(""), Text(told + TERMS, "dim"))


def _line(name: str, total: Json) -> list[Text]:
    saved = total["capped"] - total["prompt"]
    share = saved / total["capped"] if total["capped"] else 0.0
    priced = total["unpriced"] < total["calls"]
    billed = priced and total["billed"]
    seen = f"{total['seen'] / total['drawn']:.0%}" if total["drawn"] else "–"
    return [
        plain(name, "bold"),
        Text(f"{total['calls']:,}"),
        Text(thousands(total["capped"])),
        Text(thousands(total["prompt"])),
        Text(f"{share:.0%}", "red" if saved < 0 else ""),
        _dollars(total["cost"], total["full_cost"]) if priced else Text("–"),
        _dollars(total["full_cost"]) if priced else Text("–"),
        _dollars(total["billed_cost"], total["whole_cost"]) if billed else Text("–"),
        _dollars(total["whole_cost"]) if billed else Text("–"),
        Text(seen),
    ]


def _dollars(cost: float, full: float | None = None) -> Text:
    """Red where it is more than the whole history would have cost."""
    return Text(f"${cost:,.2f}", "red" if full is not None and cost > full else "")
