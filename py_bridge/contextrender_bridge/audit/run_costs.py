"""What the runs cost, as the providers counted and at their prices, and what of it was for a cache
written anew: after a pause, at a resume, after a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce

from contextrender_bridge.audit.run_reader import Recorded
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import LIFETIME, Usage

CAUSES = {
    "lifetime": f"after pauses of more than {LIFETIME / 60:.0f} minutes",
    "compaction": "after a compaction",
    "resume": "at a resume",
}


@dataclass
class Bill:
    """One model's calls. Tokens; `dollars` is None where no price is known.

    `price_source` is the model whose price was taken, where it has none of its own.
    """

    model: str
    calls: int
    prompt: int
    cached: int
    written: int
    output: int
    dollars: float | None
    price_source: str


def bills_of(runs: Iterable[Recorded]) -> list[Bill]:
    """The bills, the dearest first."""
    prices, calls = Prices.of(), dict[str, list[Usage]]()
    for run in runs:
        for used in run.usage:
            calls.setdefault(used.model, []).append(used)
    bills = [_bill(model, reduce(Usage.plus, used), prices) for model, used in calls.items()]
    return sorted(bills, key=lambda bill: -(bill.dollars or 0.0))


def _bill(model: str, used: Usage, prices: Prices) -> Bill:
    price, written = prices.of_model(model), used.written + used.written_long
    dollars = price.of(used) if price else None
    counts = used.calls, used.prompt, used.read, written, used.output
    return Bill(model or "unnamed", *counts, dollars, prices.price_source_of(model))


@dataclass
class CacheRewrites:
    """Dollars: the whole bill of the calls with a price, and what was written anew, by cause."""

    bill: float = 0.0
    causes: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))

    @property
    def shares(self) -> dict[str, float | None]:
        """Of the bill, from 0 to 1; None where no price is known."""
        return {name: cost / self.bill if self.bill else None for name, cost in self.causes.items()}

    @property
    def sentence(self) -> str:
        """The same in words; nothing where there is no bill."""
        if not self.bill:
            return ""
        told = [f"{share:.1%} {CAUSES[name]}" for name, share in self.shares.items() if share]
        total = sum(self.causes.values()) / self.bill
        if not told:
            return "No part of the bill was a cache written anew after a pause or a compaction."
        return f"Of the bill, {total:.1%} was a cache written anew: {', '.join(told)}."


def written_anew(runs: Iterable[Recorded]) -> CacheRewrites:
    """What calls after such a break sent again and did not read from the cache."""
    prices, made = Prices.of(), CacheRewrites()
    for run in runs:
        for cause, again, used in _calls(run):
            price = prices.of_model(used.model)
            if price is None:
                continue
            made.bill += price.of(used)
            if cause and used.prompt > used.read:
                sent = price.of(replace(used, read=0, output=0))
                made.causes[cause] += sent * again / (used.prompt - used.read)
    return made


def _calls(run: Recorded) -> Iterator[tuple[str, int, Usage]]:
    """Each call, with the cause that its cache was gone, if any, and the tokens written anew."""
    before: Usage | None = None
    last = 0.0
    for number, used in enumerate(run.usage):
        time = run.billed_at.get(number, 0.0)
        known = min(before.prompt, used.prompt) if before else used.prompt
        cause = ""
        if before is None and run.continues:
            cause = "compaction"
        elif number in run.resumed:
            cause = "resume"
        elif last and time - last > LIFETIME:
            cause = "lifetime"
        yield cause, max(known - used.read, 0), used
        before, last = used, time
