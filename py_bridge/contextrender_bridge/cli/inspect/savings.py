"""Show what all sessions saved, as counted when their calls were made."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import date, timedelta

from rich.console import Console, Group, RenderableType
from rich.text import Text

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.setting_kinds import PRICE_EXAMPLE
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import (
    Service,
    fitted,
    headline_share,
    plain,
    present,
    thousands,
)
from contextrender_bridge.printing import add_json

DAY = timedelta(days=1)
HEADS = ("calls", "full", "sent", "saved", "cost", "full cost", "billed", "whole", "all values")
WEIGHTS = (0, 6, 4, 5, 9, 8, 3, 7, 2, 10)
GROUPS = ("day", "model", "client", "policy", "delivery")
SUMMED = (
    "calls",
    "full",
    "full_capped",
    "prompt",
    "steps",
    "steps_with_misses",
    "calls_with_usage",
)
MONEY = ("cost", "full_cost", "usage_cost", "full_usage_cost")
TERMS = {
    "full": "prompt tokens with the full history, at most the model's window, with system prompt "
    "and tools as the provider counted them",
    "sent": "those that were sent",
    "cost": "dollars at your own or list prices; what the call before had sent counts as cached",
    "billed": "the same by the provider's own counts",
    "whole": "an estimate of the same with the full history",
    "all values": "of the steps, the answers that used an earlier result, the share that had every "
    "value they used",
}
"""The columns that need an explanation."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender savings`."""
    parser.add_argument(
        "--by",
        type=names_of,
        default=["day"],
        metavar="NAMES",
        help=f"one line for each of {', '.join(GROUPS)} (day, in UTC), or of several: day,model",
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="DAY",
        help="first day (UTC): 2026-01-31 or yesterday (all)",
    )
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="PRICE",
        help=f"your own, as {PRICE_EXAMPLE}",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table. A service elsewhere takes this user's own prices."""
    since = day_of(args.since)
    prices = [text for text in (current_settings().prices, *args.price) if text]
    with Service() as service:
        view = service.ask("total_savings", since=since, prices=prices)
    return present(args, view, lambda view: draw(view, args.by))


def names_of(text: str) -> list[str]:
    """What lines are told apart by. Raises ArgumentTypeError."""
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(GROUPS):
        raise argparse.ArgumentTypeError(f"takes {', '.join(GROUPS)}, with commas between")
    return names


def day_of(text: str) -> str:
    """A day of the calendar (UTC) as the service has it. Raises CommandError."""
    today = date(*time.gmtime()[:3])
    named = {"": "", "today": today.isoformat(), "yesterday": (today - DAY).isoformat()}
    if text in named:
        return named[text]
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise CommandError(
            f"--since takes a day as 2026-01-31, today or yesterday, not {text!r:.40}.", 2
        ) from None


def grouped(rows: Sequence[Json], by: Sequence[str]) -> dict[str, Json]:
    """Add up rows by the columns `by`.

    `calls_without_price` counts calls of models without a price; the dollars are of the others.
    """
    found: dict[str, Json] = {}
    for row in rows:
        nothing = dict.fromkeys((*SUMMED, *MONEY, "calls_without_price"), 0)
        total = found.setdefault(" ".join(str(row[name]) or "–" for name in by), nothing)
        for name in SUMMED:
            total[name] += row[name]
        for name in MONEY:
            total[name] += row[name] or 0
        if row["cost"] is None:
            total["calls_without_price"] += row["calls"]
    return found


def draw(view: Json, by: Sequence[str]) -> RenderableType:
    """The table by some of `GROUPS`, a loss in red."""
    if not view["rows"]:
        return Text("no call has been counted yet")
    everything = grouped([{**row, "all": "all"} for row in view["rows"]], ["all"])
    lines = [*grouped(view["rows"], by).items(), *everything.items()]
    heads = (", ".join("day (UTC)" if name == "day" else name for name in by), *HEADS)
    table = fitted(heads, [_line(*line) for line in lines], WEIGHTS, Console().width)
    told = f"{view['sessions_counted']} of {view['sessions']} sessions have counted calls. "
    if unpriced := sum(total["calls_without_price"] for total in everything.values()):
        told += f"{unpriced:,} calls are of models without a price: `contextrender price`. "
    for model, other in {row["model"]: row["price_source"] for row in view["rows"]}.items():
        told += f"{model} is priced as {other}. " if other else ""
    printed = {str(column.header) for column in table.columns}
    terms = "; ".join(f"{head}: {term}" for head, term in TERMS.items() if head in printed)
    return Group(table, Text(""), Text(f"{told}{terms}.", "dim"))


def _line(name: str, total: Json) -> list[Text]:
    saved = total["full_capped"] - total["prompt"]
    share = saved / total["full_capped"] if total["full_capped"] else 0.0
    priced = total["calls_without_price"] < total["calls"]
    billed = priced and total["calls_with_usage"]
    return [
        plain(name, "bold"),
        Text(f"{total['calls']:,}"),
        Text(thousands(total["full_capped"])),
        Text(thousands(total["prompt"])),
        Text(f"{share:.0%}", "red" if saved < 0 else ""),
        _dollars(total["cost"], total["full_cost"]) if priced else Text("–"),
        _dollars(total["full_cost"]) if priced else Text("–"),
        _dollars(total["usage_cost"], total["full_usage_cost"]) if billed else Text("–"),
        _dollars(total["full_usage_cost"]) if billed else Text("–"),
        Text(headline_share(total)),
    ]


def _dollars(cost: float, full: float | None = None) -> Text:
    """Red where it is more than the whole history would have cost."""
    return Text(f"${cost:,.2f}", "red" if full is not None and cost > full else "")
