"""What the runs cost, by model, as the providers counted and at their prices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contextrender_bridge.audit.recorded import Recorded
from contextrender_bridge.prices import price_of


@dataclass
class Bill:
    """One model's calls. Tokens; `dollars` is None where no price is known."""

    model: str
    calls: int = 0
    prompt: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    dollars: float | None = 0.0


def bills_of(runs: Iterable[Recorded]) -> list[Bill]:
    """The bills, the dearest first."""
    bills: dict[str, Bill] = {}
    for run in runs:
        for used in run.usage:
            bill = bills.setdefault(used.model, Bill(used.model or "unnamed"))
            bill.calls += used.calls
            bill.prompt += used.prompt
            bill.cached += used.read
            bill.written += used.written + used.written_long
            bill.output += used.output
            price = price_of(used.model)
            known = price is not None and bill.dollars is not None
            bill.dollars = (bill.dollars or 0.0) + price.of(used) if known and price else None
    return sorted(bills.values(), key=lambda bill: -(bill.dollars or 0.0))
