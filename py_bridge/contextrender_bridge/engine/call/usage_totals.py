"""Totals over a session's answered calls, stored with the session, and their cost in dollars.

Long because a call's tokens, usage and misses are added in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from functools import reduce
from operator import add, sub
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
"""The key of a row: day (in UTC), client, model, policy and delivery.

A stored row is a list of these five texts and then the numbers of a `CallTotals`.
"""

MAX_ROWS: Final = 64
"""The largest number of rows. Calls that would need more rows are counted under `OTHER`."""
OTHER: Final = "other"


@dataclass(slots=True, frozen=True)
class CallTotals:
    """Sums over calls. The numbers are stored in the order of the fields.

    - `calls` counts the calls. `over` counts the calls whose history was larger than the budget.
    - `prompt` are the tokens of the prompts that were sent. `cached` are the tokens at the
      beginning of these prompts that the prompt of the call before had, too.
    - `full` are the tokens of the prompts with the full history. For `full_capped`, each of these
      prompts has at most the tokens of the model's window, because a larger prompt cannot be sent.
      `full_capped_cached` are the tokens of `full_capped` that the full prompt of the call before
      had, too.
    - All these tokens are the provider's counts if it reported them, and otherwise our own.
    - `output` are the tokens of the answers, `embedded` the tokens that the policy embedded.
    - `results_used` counts the results that answers used. `results_used_visible` counts the used
      results that were complete in the prompt.
    - `calls_with_usage` counts the calls whose usage the provider reported. This usage is in the
      fields from `uncached` to `usage_output`. The fields from `full_uncached` to
      `full_cache_write_1h` estimate the usage with the full history.
    - `steps` counts the calls whose answer used an earlier result. `steps_with_misses` counts the
      steps with a miss. `misses` counts all misses.
    """

    calls: int = 0
    over: int = 0
    full: int = 0
    full_capped: int = 0
    full_capped_cached: int = 0
    prompt: int = 0
    cached: int = 0
    output: int = 0
    embedded: int = 0
    results_used: int = 0
    results_used_visible: int = 0
    calls_with_usage: int = 0
    uncached: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    usage_output: int = 0
    full_uncached: int = 0
    full_cache_read: int = 0
    full_cache_write: int = 0
    full_cache_write_1h: int = 0
    steps: int = 0
    steps_with_misses: int = 0
    misses: int = 0

    def plus(self, other: CallTotals) -> CallTotals:
        """Return the sum of both."""
        return CallTotals(*map(add, self.numbers, other.numbers))

    def minus(self, other: CallTotals) -> CallTotals:
        """Return the difference of both."""
        return CallTotals(*map(sub, self.numbers, other.numbers))

    @property
    def numbers(self) -> list[int]:
        """The numbers in the order of the fields."""
        return [getattr(self, name) for name in FIELD_NAMES]


FIELD_NAMES: Final = tuple(field.name for field in fields(CallTotals))


@dataclass(slots=True, frozen=True)
class PreviousCall:
    """The data of a call that are needed to compute the sums of the next call.

    `full` is the number of tokens of its full history, `at` its time in seconds since 1970.
    `usage_state` is the state from which the usage of the next full history is estimated. All are 0
    if there was no call before.
    """

    full: int = 0
    at: int = 0
    usage_state: FullUsageState = NOTHING_BILLED

    @classmethod
    def of(cls, tokens: Sequence[int], at: int, state_numbers: Sequence[int]) -> Self:
        """Return the data of a stored call.

        `tokens` are the counts in the field `tokens` of the call's record. `state_numbers` is the
        list that the property `state_numbers` returned, empty if no call had usage.
        """
        usage_state = NOTHING_BILLED
        if state_numbers:
            prompt, omitted_tokens, caches, writes = state_numbers
            usage_state = FullUsageState(prompt, omitted_tokens, bool(caches), bool(writes))
        tokens_before, _, unbudgeted_tokens, *_ = tokens
        return cls(tokens_before + unbudgeted_tokens, at, usage_state)

    @property
    def state_numbers(self) -> list[int]:
        """The numbers with which `usage_state` is stored, or none if no call had usage."""
        if self.usage_state == NOTHING_BILLED:
            return []
        return [int(number) for number in astuple(self.usage_state)]


def add_call(
    rows: Sequence[Row],
    record: CallRecord,
    previous: PreviousCall,
    window: int | None,
    answer: CallTotals,
) -> tuple[list[Row], list[int]]:
    """Add a call to the rows, and return the new rows.

    `answer` has the sums that follow from the call's answer (`answer_sums`). Also return the call's
    `PreviousCall.state_numbers`. They are stored with the call, because adding the next call needs
    them.
    """
    sums, call = prompt_sums(record, previous, window)
    return add_sums(rows, record, sums.plus(answer)), call.state_numbers


def subtract_call(
    rows: Sequence[Row],
    record: CallRecord,
    previous: PreviousCall,
    window: int | None,
    answer: CallTotals,
) -> list[Row]:
    """Return the rows without a call. `add_call` has added the call with the same arguments."""
    sums, _ = prompt_sums(record, previous, window)
    return add_sums(rows, record, CallTotals().minus(sums.plus(answer)))


def answer_sums(
    complete: Set[int],
    output: int,
    used_results: Set[int],
    missing_results: Iterable[MissingResult],
) -> CallTotals:
    """Return the sums of a call that follow from its answer.

    `output` is the number of the answer's tokens. `complete` has the results that the prompt showed
    complete. `used_results` has the results that the answer used.
    """
    # If an answer used only names of tools or fields, it had them without the result: no miss.
    misses = sum(not missing_result.names_only for missing_result in missing_results)
    return CallTotals(
        output=output,
        results_used=len(used_results),
        results_used_visible=len(used_results & complete),
        steps=int(bool(used_results or misses)),
        steps_with_misses=int(bool(misses)),
        misses=misses,
    )


def prompt_sums(
    record: CallRecord, previous: PreviousCall, window: int | None
) -> tuple[CallTotals, PreviousCall]:
    """Return the sums of a call's prompt and usage, and the `previous` for adding the next call.

    `previous` is the call before this one. `window` is the context window of the call's model in
    tokens, or None if it is unknown. The sums of the answer are not included (`answer_sums`).
    """
    # First use our own counts, and then correct them to the provider's counts.
    full = record.full
    full_capped = min(full, window or full)
    sums = CallTotals(
        calls=1,
        over=int(record.tokens_before > record.budget),
        full=full,
        full_capped=full_capped,
        full_capped_cached=min(previous.full, full_capped),
        prompt=record.prompt,
        cached=record.shared_tokens,
        embedded=record.embedded_tokens,
    )
    from_usage, this_call = usage_sums(record, previous, window)
    return sums.plus(from_usage), replace(this_call, full=full, at=record.at)


def usage_sums(
    record: CallRecord, previous: PreviousCall, window: int | None = None
) -> tuple[CallTotals, PreviousCall]:
    """Return what a call's usage adds to its sums, and `previous` with a new `usage_state`.

    The call's sums already have our own token counts of its prompt and of the full prompt. For
    these, return the difference to the provider's counts, so that the sum is the provider's count.
    The other numbers are the provider's counts. Without usage, return zeros and `previous`.
    """
    if record.usage is None:
        return CallTotals(), previous
    # Estimate the usage that the full history would have had.
    uncached, cache_read, cache_write, cache_write_1h, output = record.usage
    usage = Usage(record.model, uncached, cache_read, cache_write, cache_write_1h, output)
    # The full prompt would not have our recall tool, whose tokens are in `added_tokens`.
    full, prompt = record.full, record.prompt
    omitted_tokens = full - prompt - record.added_tokens
    full_usage, usage_state = estimate_full_usage(
        previous.usage_state, usage, omitted_tokens, record.at - previous.at
    )
    # The differences between the provider's counts and our own.
    full_capped = min(full, window or full)
    prompt_correction = usage.prompt - prompt
    full_correction = full_usage.prompt - full_capped
    # The provider also counts the tools' schemas, and we do not. They are at the beginning of each
    # prompt, so they are cached. So our counts of cached tokens need the same corrections as those
    # of all tokens, but must not become negative.
    cached_correction = full_cached_correction = 0
    if previous.at:  # the first call has no cached tokens
        own_cached, own_full_cached = record.shared_tokens, min(previous.full, full_capped)
        cached_correction = max(prompt_correction, -own_cached)
        full_cached_correction = max(full_correction, -own_full_cached)
    sums = CallTotals(
        full=prompt_correction,  # no provider counts the omitted tokens, so our count of them stays
        full_capped=full_correction,
        full_capped_cached=full_cached_correction,
        prompt=prompt_correction,
        cached=cached_correction,
        calls_with_usage=1,
        uncached=uncached,
        cache_read=cache_read,
        cache_write=cache_write,
        cache_write_1h=cache_write_1h,
        usage_output=output,
        full_uncached=full_usage.uncached,
        full_cache_read=full_usage.cache_read,
        full_cache_write=full_usage.cache_write,
        full_cache_write_1h=full_usage.cache_write_1h,
    )
    return sums, replace(previous, usage_state=usage_state)


def _key_of(record: CallRecord) -> Key:
    """Return the key of the row that counts a call."""
    day = datetime.fromtimestamp(record.at, UTC).date().isoformat()
    return day, record.client, record.model, record.settings.policy, record.delivery


def add_sums(rows: Sequence[Row], record: CallRecord, sums: CallTotals) -> list[Row]:
    """Add a call's sums to the row with the call's key, and return the new rows.

    Callers choose the names of clients and models, so the number of rows must be limited. A call
    that would need too many rows is added to the row `OTHER` of its day. Rows of zeros are removed.
    """
    totals, key = dict(read_rows(rows)), _key_of(record)
    if key not in totals and len(totals) >= MAX_ROWS:
        day, _, _, policy, delivery = key
        key = (day, OTHER, OTHER, policy, delivery)
    # There may be too many rows under `OTHER`, one per day. Then use the first row.
    if key not in totals and len(totals) >= 2 * MAX_ROWS:
        key = next(iter(totals))
    totals[key] = totals[key].plus(sums) if key in totals else sums
    return [
        [*key, *_without_last_zeros(total.numbers)]
        for key, total in totals.items()
        if total != CallTotals()
    ]


def total_of(rows: Iterable[Row]) -> CallTotals:
    """Return the sum of a session's rows."""
    return reduce(CallTotals.plus, (sums for _, sums in read_rows(rows)), CallTotals())


def read_rows(rows: Iterable[Row]) -> Iterable[tuple[Key, CallTotals]]:
    """Yield the key and the sums of every stored row."""
    for row in rows:
        day, client, model, policy, delivery, *numbers = row
        yield (
            (str(day), str(client), str(model), str(policy), str(delivery)),
            CallTotals(*map(int, numbers)),
        )


def last_client(rows: Iterable[Row]) -> str:
    """Return the client of the newest row that names one, or an empty text."""
    clients = [(day, client) for (day, client, *_), _ in read_rows(rows) if client]
    _, newest_client = max(clients, default=("", ""))
    return newest_client


def _without_last_zeros(numbers: list[int]) -> list[int]:
    """Remove the zeros at the end of the list, because they are not stored. Return the list."""
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


@dataclass(slots=True, frozen=True)
class CostTotals:
    """The costs of one model's calls in dollars, None if the model has no price.

    - If the provider reported the usage of all calls, `cost` is the cost of this usage, and
      `full_cost` the cost of the estimated usage with the full history.
    - Otherwise `is_estimate` is true, and both are computed from our own counts of the prompts and
      of the full prompts. Tokens that a prompt shares with the prompt of the call before cost a
      cache read, all other tokens a cache write.
    - `price_source` is the model whose price was used, if the model has no price of its own.
    """

    cost: float | None = None
    full_cost: float | None = None
    is_estimate: bool = False
    price_source: str = ""


def add_rows(sessions: Iterable[Iterable[Row]]) -> dict[Key, CallTotals]:
    """Add up the rows of many sessions that have the same key. Return the sums by key, sorted."""
    totals: dict[Key, CallTotals] = {}
    for rows in sessions:
        for key, sums in read_rows(rows):
            totals[key] = totals[key].plus(sums) if key in totals else sums
    return dict(sorted(totals.items()))


def cost_of(model: str, sums: CallTotals, prices: Prices) -> CostTotals:
    """Return the costs of a model's calls, whose totals are `sums`.

    A full history that exceeds the model's window costs only as many tokens as the window has.
    """
    price = prices.of_model(model)
    if price is None:
        return CostTotals()
    source = prices.price_source_of(model)
    # If the usage of some calls is missing, estimate all costs from our own counts.
    if sums.calls_with_usage < sums.calls:
        cost = price.cost_of_counts(sums.prompt, sums.cached, sums.output)
        full_cost = price.cost_of_counts(sums.full_capped, sums.full_capped_cached, sums.output)
        return CostTotals(cost, full_cost, is_estimate=True, price_source=source)
    # Otherwise compute the costs of the reported usage, and of the usage with full history.
    usage = Usage(
        model,
        uncached=sums.uncached,
        cache_read=sums.cache_read,
        cache_write=sums.cache_write,
        cache_write_1h=sums.cache_write_1h,
        output=sums.usage_output,
        calls=sums.calls_with_usage,
    )
    full_usage = Usage(
        model,
        uncached=sums.full_uncached,
        cache_read=sums.full_cache_read,
        cache_write=sums.full_cache_write,
        cache_write_1h=sums.full_cache_write_1h,
        output=sums.usage_output,
        calls=sums.calls_with_usage,
    )
    return CostTotals(price.of(usage), price.of(full_usage), price_source=source)
