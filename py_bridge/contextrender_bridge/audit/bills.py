"""What the runs cost, by model, as the providers counted and at their prices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contextrender_bridge.audit.recorded import Recorded
from contextrender_bridge.base.prices import Prices


@dataclass
class Bill:
    """One model's calls. Tokens; `dollars` is None where no price is known.

    `priced_as` is the model whose price was taken, where it has none of its own.
    """

    model: str
    calls: int = 0
    prompt: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    dollars: float | None = 0.0
    priced_as: str = ""


def bills_of(runs: Iterable[Recorded]) -> list[Bill]:
    """The bills, the dearest first."""
    prices = Prices.of()
    bills: dict[str, Bill] = {}
    for run in runs:
        for used in run.usage:
            bill = bills.setdefault(used.model, _new(used.model, prices))
            bill.calls += used.calls
            bill.prompt += used.prompt
            bill.cached += used.read
            bill.written += used.written + used.written_long
            bill.output += used.output
            price = prices.of_model(used.model)
            known = price is not None and bill.dollars is not None
            bill.dollars = (bill.dollars or 0.0) + price.of(used) if known and price else None
    return sorted(bills.values(), key=lambda bill: -(bill.dollars or 0.0))


def _new(model: str, prices: Prices) -> Bill:
    return Bill(model or "unnamed", priced_as=prices.stands_as(model))
