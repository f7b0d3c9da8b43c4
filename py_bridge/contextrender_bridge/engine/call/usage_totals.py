"""Totals over answered calls, kept as the calls are recorded, and what they come to in dollars.

Long because a call is counted, told and paid in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final, Self

from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import (
    NOTHING_BILLED,
    FullUsageState,
    Usage,
    estimate_full_usage,
)
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.missing_results import MissingResult

Row = list[Any]
Key = tuple[str, str, str, str, str]
"""Day (of UTC), client, model, policy, and what was sent."""

MOST_ROWS: Final = 64
REST: Final = "other"


@dataclass(slots=True, frozen=True)
class CallTotals:
    """Sums over calls. Of `calls`, `over` had a history larger than the budget.

    Prompts in tokens, the provider's where it told them: `full` with the whole history, `capped`
    the same at most the model's window, `capped_cached` what of that the call before had, `prompt`
    and `cached` those of what was sent; `output` is what the model wrote, `embedded` what the
    policy embedded. Answers drew on `drawn` results, `seen` of which they had complete. `billed`
    calls came with a bill (`fresh` to `billed_output`); the `whole_` are what the whole history's
    would have been. Of the `steps`, the calls whose answer used an earlier result,
    `steps_with_misses` missed a value; `misses` counts every miss.
    """

    calls: int = 0
    over: int = 0
    full: int = 0
    capped: int = 0
    capped_cached: int = 0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    embedded: int = 0
    drawn: int = 0
    seen: int = 0
    billed: int = 0
    fresh: int = 0
    read: int = 0
    written: int = 0
    written_long: int = 0
    billed_output: int = 0
    whole_fresh: int = 0
    whole_read: int = 0
    whole_written: int = 0
    whole_written_long: int = 0
    steps: int = 0
    steps_with_misses: int = 0
    misses: int = 0

    def plus(self, other: CallTotals) -> CallTotals:
        """Both together."""
        return CallTotals(*(a + b for a, b in zip(self.numbers, other.numbers, strict=True)))

    @property
    def numbers(self) -> list[int]:
        """In the order of the fields."""
        return [getattr(self, name) for name in NAMES]


NAMES: Final = tuple(field.name for field in fields(CallTotals))


@dataclass(slots=True, frozen=True)
class PreviousCall:
    """What the next call's sums need of the calls before it: `full` and `at` of the last one.

    `known` is for estimating the whole history's bill.
    """

    full: int = 0
    at: int = 0
    known: FullUsageState = NOTHING_BILLED

    @classmethod
    def of(cls, tokens: Sequence[int], at: int, noted: Sequence[int]) -> Self:
        """After a call made `at` that second with these `tokens`, as its record's fields have them;
        `noted` is what `noted` told of it then."""
        known = NOTHING_BILLED
        if noted:
            prompt, away, caches, writes = noted
            known = FullUsageState(prompt, away, bool(caches), bool(writes))
        whole, _, outside, *_ = tokens
        return cls(whole + outside, at, known)

    @property
    def noted(self) -> list[int]:
        """`known` as plain values; nothing where nothing is known."""
        return [] if self.known == NOTHING_BILLED else [int(one) for one in astuple(self.known)]


def add_call(
    rows: Sequence[Row],
    record: CallRecord,
    before: PreviousCall,
    window: int | None,
    answer: CallTotals,
) -> tuple[list[Row], list[int]]:
    """The rows with a call in them, its `answer` included; and what is noted for the next one."""
    sums, after = prompt_sums(record, before, window)
    return added(rows, record, sums.plus(answer)), after.noted


def answer_sums(
    complete: Set[int], output: int, used: Set[int], missing: Iterable[MissingResult]
) -> CallTotals:
    """Return the sums of a call that follow from its answer.

    `output` is the answer's tokens, `used` the results that it used. `missing` are those that the
    prompt lacked; it had the `complete` ones.
    """
    misses = sum(not one.names_only for one in missing)
    return CallTotals(
        output=output,
        drawn=len(used),
        seen=len(used & complete),
        steps=int(bool(used or misses)),
        steps_with_misses=int(bool(misses)),
        misses=misses,
    )


def prompt_sums(
    record: CallRecord, before: PreviousCall, window: int | None
) -> tuple[CallTotals, PreviousCall]:
    """The sums of one call's prompt and bill, and what the next one is told.

    `window` is the most its model takes.
    """
    full = record.full
    capped = min(full, window or full)
    made = CallTotals(
        calls=1,
        over=int(record.before > record.budget),
        full=full,
        capped=capped,
        capped_cached=min(before.full, capped),
        prompt=record.prompt,
        cached=record.shared,
        embedded=record.embedded,
    )
    billed, after = bill_sums(record, before, window)
    return made.plus(billed), replace(after, full=full, at=record.at)


def bill_sums(
    record: CallRecord, before: PreviousCall, window: int | None = None
) -> tuple[CallTotals, PreviousCall]:
    """What a call's bill adds: also, to the prompts' tokens, what is not in the history.

    That are the tools' schemas, and what the provider counts otherwise.
    """
    if record.billed is None:
        return CallTotals(), before
    fresh, read, written, long, output = record.billed
    usage = Usage(record.model, fresh, read, written, long, output)
    full, prompt = record.full, record.prompt
    whole, known = estimate_full_usage(
        before.known, usage, full - prompt - record.added, record.at - before.at
    )
    capped = min(full, window or full)
    more, more_whole = usage.prompt - prompt, whole.prompt - capped
    made = CallTotals(
        full=more,
        capped=more_whole,
        capped_cached=max(more_whole, -min(before.full, capped)) if before.at else 0,
        prompt=more,
        cached=max(more, -record.shared) if before.at else 0,
        billed=1,
        fresh=fresh,
        read=read,
        written=written,
        written_long=long,
        billed_output=output,
        whole_fresh=whole.uncached,
        whole_read=whole.cache_read,
        whole_written=whole.cache_write,
        whole_written_long=whole.cache_write_1h,
    )
    return made, replace(before, known=known)


def _key_of(record: CallRecord) -> Key:
    """The row a call is counted in."""
    day = datetime.fromtimestamp(record.at, UTC).date().isoformat()
    return day, record.client, record.model, record.settings.policy, record.delivery


def added(rows: Sequence[Row], record: CallRecord, sums: CallTotals) -> list[Row]:
    """The rows with one more call in them. A caller that makes up names gets no more than some."""
    known, key = dict(read_rows(rows)), _key_of(record)
    if key not in known and len(known) >= MOST_ROWS:
        key = (key[0], REST, REST, key[3], key[4])
    if key not in known and len(known) >= 2 * MOST_ROWS:
        key = next(iter(known))
    known[key] = known[key].plus(sums) if key in known else sums
    return [[*key, *_trimmed(total.numbers)] for key, total in known.items()]


def total_of(rows: Iterable[Row]) -> CallTotals:
    """All of a session's rows together."""
    return reduce(CallTotals.plus, (sums for _, sums in read_rows(rows)), CallTotals())


def read_rows(rows: Iterable[Row]) -> Iterable[tuple[Key, CallTotals]]:
    """Every row's key and sums."""
    for row in rows:
        day, client, model, policy, delivery, *numbers = row
        yield (
            (str(day), str(client), str(model), str(policy), str(delivery)),
            CallTotals(*map(int, numbers)),
        )


def last_client(rows: Iterable[Row]) -> str:
    """The program of the newest row that names one."""
    named = [(day, client) for (day, client, *_), _ in read_rows(rows) if client]
    return max(named)[1] if named else ""


def _trimmed(numbers: list[int]) -> list[int]:
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


@dataclass(slots=True, frozen=True)
class CostTotals:
    """Dollars of a row; None where the model has no price.

    `price_source` is the model whose price was taken where it has none of its own.
    `cost` and `full_cost` are of the tokens counted here, `billed_cost` of those the provider told,
    `whole_cost` what these calls would have cost with the whole history, about.
    """

    cost: float | None = None
    full_cost: float | None = None
    billed_cost: float | None = None
    whole_cost: float | None = None
    price_source: str = ""


def add_rows(sessions: Iterable[Iterable[Row]]) -> dict[Key, CallTotals]:
    """The rows of many sessions as one."""
    total: dict[Key, CallTotals] = {}
    for rows in sessions:
        for key, sums in read_rows(rows):
            total[key] = total[key].plus(sums) if key in total else sums
    return dict(sorted(total.items()))


def money_of(model: str, sums: CallTotals, prices: Prices) -> CostTotals:
    """A row's dollars."""
    price = prices.of_model(model)
    if price is None:
        return CostTotals()
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
    return CostTotals(
        price.cost_of_counts(sums.prompt, sums.cached, sums.output),
        price.cost_of_counts(sums.capped, sums.capped_cached, sums.output),
        price.of(billed) if sums.billed else None,
        price.of(whole) if sums.billed else None,
        prices.price_source_of(model),
    )
