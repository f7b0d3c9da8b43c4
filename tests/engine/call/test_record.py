"""The record of a call is small, restored exactly and counted correctly."""

from dataclasses import replace

from contextrender_bridge.engine.call.call_record import CallRecord, to_runs
from contextrender_bridge.engine.call.settings import AGENT_SETTINGS, DELIVERIES, RenderSettings
from contextrender_bridge.engine.call.usage_totals import PreviousCall, usage_sums
from hypothesis import given
from hypothesis import strategies as st

from tests.support.transcripts import numbers_in

DAY = 1_790_000_000


def record(**changed: object) -> CallRecord:
    fields: dict[str, object] = {
        "settings": RenderSettings(),
        "at": DAY,
        "result_count": 10,
        "tokens_before": 9_000,
        "tokens_after": 4_000,
        "unbudgeted_tokens": 100,
        "text_tokens": 50,
        "shared_tokens": 1_000,
    }
    return CallRecord(**{**fields, **changed})  # type: ignore[arg-type]


@given(st.sampled_from(DELIVERIES))
def test_record_survives_json(delivery: str) -> None:
    original = record(delivery=delivery, settings=AGENT_SETTINGS, usage=(1, 2, 3, 4, 5), model="m")
    assert CallRecord.from_json(original.to_json()) == original.with_sent_tokens()
    assert CallRecord.from_json(original.fields()) == original.with_sent_tokens()


@given(st.sets(st.integers(0, 5_000), max_size=200))
def test_numbers_survive_run_encoding(numbers: set[int]) -> None:
    assert numbers_in(to_runs(numbers)) == sorted(numbers)


def test_full_history_usage_adds_omitted_tokens() -> None:
    """As in `contextrender wrap`: the cache has all of the previous full prompt."""
    first = record(tokens_before=4_000, tokens_after=4_000, usage=(1_000, 0, 3_000, 0, 50))
    sums, line = usage_sums(first, PreviousCall())
    assert (sums.uncached, sums.cache_write, sums.usage_output) == (1_000, 3_000, 50)
    assert (sums.full_uncached, sums.full_cache_read, sums.full_cache_write) == (1_000, 0, 3_000)
    line = replace(line, full=first.full, at=DAY)
    second = {"usage": (500, 2_000, 1_500, 0, 60)}
    sums, line = usage_sums(record(at=DAY + 10, **second), line)
    assert sums.full_uncached + sums.full_cache_read + sums.full_cache_write == 4_000 + 5_000
    assert sums.full_cache_read == 4_000
    late, _ = usage_sums(record(at=DAY + 10_000, **second), line)
    assert late.full_cache_read == 0
