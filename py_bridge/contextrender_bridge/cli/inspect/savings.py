"""Show the tokens and dollars that all sessions saved, as counted when their calls were made."""

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
from contextrender_bridge.cli.inspect.common import (
    ServiceClient,
    agent_text,
    fit_table,
    headline_share,
    print_view,
    short_count,
)
from contextrender_bridge.printing import add_json

DAY = timedelta(days=1)
HEADS = ("calls", "full", "sent", "saved", "cost", "full cost", "all values")
WEIGHTS = (0, 6, 4, 5, 9, 8, 7, 10)
"""The weights for `fit_table`: of the groups' names, then of each column of `HEADS`."""
GROUPS = ("day", "model", "client", "policy", "delivery")
SUMMED_COUNTS = ("calls", "full", "full_capped", "prompt", "steps", "steps_with_misses")
SUMMED_COSTS = ("cost", "full_cost")
TERMS = {
    "full": "prompt tokens with the full history, at most the model's window, with system prompt "
    "and tools as the provider counted them",
    "sent": "prompt tokens that were sent",
    "cost": "dollars at your own or list prices, by the provider's token counts; ~ marks an "
    "estimate, if the provider did not report all calls",
    "full cost": "an estimate of the cost with the full history",
    "all values": "share of the steps (answers that used an earlier result) that had every value "
    "they used",
}
"""Explanations of some columns."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender savings`."""
    parser.add_argument(
        "--by",
        type=group_columns,
        default=["day"],
        metavar="NAMES",
        help=f"one line for each {', '.join(GROUPS)} (day, in UTC), or combination: day,model",
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="DAY",
        help="first day in UTC: 2026-01-31, today or yesterday (all days)",
    )
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="PRICE",
        help=f"your own price, as {PRICE_EXAMPLE}",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table of savings.

    The price settings of this machine, and then the options' prices, are sent to the service, so
    that they also apply to a remote one.
    """
    since, prices = as_day(args.since), [*own_prices(), *args.price]
    with ServiceClient() as service:
        view = service.ask("total_savings", since=since, prices=prices)
    return print_view(args, view, lambda view: draw(view, args.by))


def group_columns(text: str) -> list[str]:
    """Return the columns by which rows are grouped. Raise ArgumentTypeError if one is unknown."""
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(GROUPS):
        raise argparse.ArgumentTypeError(f"must be one or several of {', '.join(GROUPS)}")
    return names


def as_day(text: str) -> str:
    """Return a day (UTC) such as 2026-01-31 from a text: "today", "yesterday" or a date.

    An empty text, which stands for all days, is returned as it is. Raise CommandError for any other
    text.
    """
    year, month, day, *_ = time.gmtime()
    today = date(year, month, day)
    named_days = {"": "", "today": today.isoformat(), "yesterday": (today - DAY).isoformat()}
    if text in named_days:
        return named_days[text]
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise CommandError(
            f"--since must be a day such as 2026-01-31, today or yesterday, not {text!r:.40}.", 2
        ) from None


def own_prices() -> list[str]:
    """Return the prices of this machine's settings, in the form of the field `prices`."""
    prices = current_settings().prices
    return [prices] if prices else []


def group_rows(rows: Sequence[Json], by: Sequence[str]) -> dict[str, Json]:
    """Group the rows by the columns `by`, and map each group's name to the sums of its rows.

    The name has the columns' values, such as `2026-01-31 gpt-5`. `calls_without_price` counts the
    calls whose models have no price; the dollars do not include them. `is_estimate` is true if the
    cost of one of the rows is an estimate.
    """
    sums_by_group: dict[str, Json] = {}
    for row in rows:
        group = " ".join(str(row[column]) or "–" for column in by)
        zeros: Json = dict.fromkeys((*SUMMED_COUNTS, *SUMMED_COSTS, "calls_without_price"), 0)
        sums = sums_by_group.setdefault(group, zeros | {"is_estimate": False})
        sums["is_estimate"] |= row["is_estimate"]
        for field in SUMMED_COUNTS:
            sums[field] += row[field]
        for field in SUMMED_COSTS:
            sums[field] += row[field] or 0
        if row["cost"] is None:  # the row's model has no price
            sums["calls_without_price"] += row["calls"]
    return sums_by_group


def draw(view: Json, by: Sequence[str]) -> RenderableType:
    """Return a table of the savings with a row per group and a row for all, and notes on it.

    Calls are grouped by the columns `by`, which are some of `GROUPS`. Losses are red.
    """
    if not view["rows"]:
        return Text("no call has been counted yet")
    groups = group_rows(view["rows"], by)
    # Grouped by no column, all rows are one group.
    (overall,) = group_rows(view["rows"], []).values()
    cells = [_cells(name, total) for name, total in (*groups.items(), ("all", overall))]
    group_title = ", ".join("day (UTC)" if column == "day" else column for column in by)
    table = fit_table((group_title, *HEADS), cells, WEIGHTS, Console().width)
    notes = _notes(view, calls_without_price=overall["calls_without_price"])
    shown_titles = {str(column.header) for column in table.columns}
    terms = "; ".join(f"{title}: {term}" for title, term in TERMS.items() if title in shown_titles)
    return Group(table, Text(""), Text(f"{notes}{terms}.", "dim"))


def _notes(view: Json, calls_without_price: int) -> str:
    """Return sentences on the counted sessions, and on models without a price of their own.

    They end with a space, because the explanations of the columns follow.
    """
    notes = f"{view['sessions_counted']} of {view['sessions']} sessions have counted calls. "
    if calls_without_price:
        notes += f"{calls_without_price:,} calls are of models without a price: "
        notes += "`contextrender price`. "
    price_sources = {row["model"]: row["price_source"] for row in view["rows"]}
    for model, source in price_sources.items():
        if source:
            notes += f"{model} is priced as {source}. "
    return notes


def _cells(name: str, total: Json) -> list[Text]:
    """Return a row of the table: a group's name, then a cell for each of `HEADS`."""
    # `full_capped` counts a full history with at most the tokens of the model's window, because a
    # longer prompt could not have been sent.
    saved_tokens = total["full_capped"] - total["prompt"]
    share = saved_tokens / total["full_capped"] if total["full_capped"] else 0.0
    has_price = total["calls_without_price"] < total["calls"]
    mark = "~" if total["is_estimate"] else ""
    return [
        agent_text(name, "bold"),
        Text(f"{total['calls']:,}"),
        Text(short_count(total["full_capped"])),
        Text(short_count(total["prompt"])),
        Text(f"{share:.0%}", "red" if saved_tokens < 0 else ""),
        Text(
            f"{mark}${total['cost']:,.2f}" if has_price else "–",
            "red" if total["cost"] > total["full_cost"] else "",
        ),
        Text(f"~${total['full_cost']:,.2f}" if has_price else "–"),
        Text(headline_share(total)),
    ]
