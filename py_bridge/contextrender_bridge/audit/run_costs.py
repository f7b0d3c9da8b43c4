"""Sums up what the runs cost, by the providers' token counts and prices.

Part of the cost is for writing a cache again: after a pause, at a resume, or after a compaction.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce

from contextrender_bridge.audit.run_reader import RecordedRun
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import LIFETIME, Usage

CAUSES = {
    "lifetime": f"after pauses of more than {LIFETIME / 60:.0f} minutes",
    "compaction": "after a compaction",
    "resume": "at a resume",
}


@dataclass
class ModelCost:
    """The tokens and the cost of one model's calls. `dollars` is None if no price is known.

    If the model itself has no price, `price_source` names the model whose price was used instead.
    """

    model: str
    calls: int
    prompt: int
    cache_read: int
    cache_write: int
    output: int
    dollars: float | None
    price_source: str


def costs_by_model(runs: Iterable[RecordedRun]) -> list[ModelCost]:
    """Sum up the calls of all runs by model, and return the costs, the highest first."""
    prices, usage_by_model = Prices.of(), dict[str, list[Usage]]()
    for run in runs:
        for usage in run.usage:
            usage_by_model.setdefault(usage.model, []).append(usage)
    costs = [
        _cost_of_model(model, reduce(Usage.plus, usage), prices)
        for model, usage in usage_by_model.items()
    ]
    return sorted(costs, key=lambda total_cost: -(total_cost.dollars or 0.0))


def _cost_of_model(model: str, usage: Usage, prices: Prices) -> ModelCost:
    """Return the tokens and the cost of the summed usage of a model's calls."""
    price = prices.of_model(model)
    dollars = price.of(usage) if price else None
    cache_write = usage.cache_write + usage.cache_write_1h
    counts = usage.calls, usage.prompt, usage.cache_read, cache_write, usage.output
    return ModelCost(model or "unnamed", *counts, dollars, prices.price_source_of(model))


@dataclass
class CacheRewrites:
    """The cost in dollars of all calls with a known price, and of writing lost caches again."""

    total_cost: float = 0.0
    cost_by_cause: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))

    @property
    def shares(self) -> dict[str, float | None]:
        """Each cause's share of the total cost, in [0, 1]; None if no price is known."""
        return {
            name: cost / self.total_cost if self.total_cost else None
            for name, cost in self.cost_by_cause.items()
        }

    @property
    def sentence(self) -> str:
        """The shares in words; empty if no price is known."""
        if not self.total_cost:
            return ""
        parts = [f"{share:.1%} {CAUSES[name]}" for name, share in self.shares.items() if share]
        total = sum(self.cost_by_cause.values()) / self.total_cost
        if not parts:
            return "No cache had to be written again after a pause or a compaction."
        return f"{total:.1%} of the cost was for writing a cache again: {', '.join(parts)}."


def cache_rewrites_of(runs: Iterable[RecordedRun]) -> CacheRewrites:
    """Return the cost of all calls, and the part of it for writing lost caches again.

    A call pays for its unread tokens: the prompt tokens that it did not read from the cache. Some
    of them had been cached before. They have a proportional share of the unread tokens' cost. Calls
    without a known price are ignored.
    """
    prices, rewrites = Prices.of(), CacheRewrites()
    for run in runs:
        for cause, rewritten_tokens, usage in _calls_with_cause(run):
            price = prices.of_model(usage.model)
            if price is None:
                continue
            rewrites.total_cost += price.of(usage)
            unread_tokens = usage.prompt - usage.cache_read
            if cause and unread_tokens > 0:
                unread_cost = price.of(replace(usage, cache_read=0, output=0, calls=0))
                rewrites.cost_by_cause[cause] += unread_cost * rewritten_tokens / unread_tokens
    return rewrites


def _calls_with_cause(run: RecordedRun) -> Iterator[tuple[str, int, Usage]]:
    """Yield a cause, a number of rewritten tokens, and the usage of each call.

    The cause is an event just before the call by which a cache may be lost, one of `CAUSES`. It is
    empty if there was no such event. The rewritten tokens are those that the previous prompt may
    have put into the cache, but this call did not read from there. For a run's first call, this is
    the whole prompt: the run that it continues may have cached it. If it continues none, the cause
    is empty and the number has no meaning.
    """
    previous: Usage | None = None
    previous_time = 0.0
    for number, usage in enumerate(run.usage):
        time = run.billed_at.get(number, 0.0)
        # At most the shorter of the two prompts can be their common beginning.
        cacheable_tokens = min(previous.prompt, usage.prompt) if previous else usage.prompt
        cause = ""
        if previous is None and run.continues:
            cause = "compaction"
        elif number in run.resumed:
            cause = "resume"
        elif previous_time and time - previous_time > LIFETIME:
            cause = "lifetime"
        yield cause, max(cacheable_tokens - usage.cache_read, 0), usage
        previous, previous_time = usage, time
