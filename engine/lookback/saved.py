"""What all sessions saved: their sums added up, and in dollars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import Usage

from engine.call.ledger import Key, Row, Sums, read_rows


@dataclass(slots=True, frozen=True)
class Money:
    """Dollars of a row; None where the model has no price.

    `priced_as` is the model whose price was taken where it has none of its own.
    `cost` and `full_cost` are of the tokens counted here, `billed_cost` of those the provider told,
    `whole_cost` what these calls would have cost with the whole history, about.
    """

    cost: float | None = None
    full_cost: float | None = None
    billed_cost: float | None = None
    whole_cost: float | None = None
    priced_as: str = ""


def add_rows(sessions: Iterable[Iterable[Row]]) -> dict[Key, Sums]:
    """The rows of many sessions as one."""
    total: dict[Key, Sums] = {}
    for rows in sessions:
        for key, sums in read_rows(rows):
            total[key] = total[key].plus(sums) if key in total else sums
    return dict(sorted(total.items()))


def money_of(model: str, sums: Sums, prices: Prices) -> Money:
    """A row's dollars."""
    price = prices.of_model(model)
    if price is None:
        return Money()
    billed = Usage(
        model, sums.fresh, sums.read, sums.written, sums.written_long, sums.billed_output
    )
    whole = Usage(
        model,
        sums.whole_fresh,
        sums.whole_read,
        sums.whole_written,
        sums.whole_written_long,
        sums.billed_output,
    )
    return Money(
        price.counted(sums.prompt, sums.cached, sums.output),
        price.counted(sums.capped, sums.capped_cached, sums.output),
        price.of(billed) if sums.billed else None,
        price.of(whole) if sums.billed else None,
        prices.stands_as(model),
    )
