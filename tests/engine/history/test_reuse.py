"""Tool-Flow Analysis: a worked case, and the rules against a reference at every model call."""

from collections import Counter

import pytest
from contextrender_bridge.engine.history.reuse import ReuseIndex
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given

from tests.support import slow_rules
from tests.support.golden import golden
from tests.support.strategies import COUNTER, history_of, modest, transcripts

GOLDEN = golden("reuse")


def test_reuse_scores_of_worked_case() -> None:
    history = history_of(GOLDEN["messages"])
    assert history.turn == GOLDEN["invocation"]
    ids = [m["tool_call_id"] for m in GOLDEN["messages"] if m["role"] == "tool"]
    assert dict(zip(ids, history.reuse.scores(), strict=True)) == GOLDEN["reuse_score"]


@given(transcripts(longest=8))
@modest
def test_uses_and_result_counts_equal_reference(messages: list[Json]) -> None:
    history = history_of(messages)
    positions = list(history.results.message)
    uses = [(use.operation, positions[use.result], list(use.values)) for use in history.reuse.uses]
    assert uses == slow_rules.uses(messages)
    result_counts = Counter(
        value
        for message in messages
        if message["role"] == "tool"
        for value in slow_rules.values(slow_rules.text_of(message["content"]))
    )
    assert history.reuse.result_counts([*result_counts, "unheard_of"]) == dict(result_counts)
    for number, position in enumerate(positions):
        used_values = {value for _, result, some in uses if result == position for value in some}
        assert history.reuse.used_values(number) == sorted(used_values)


@given(transcripts(longest=8))
@modest
def test_reuse_scores_equal_reference_at_every_call(messages: list[Json]) -> None:
    history = history_of([])
    for stop, message in enumerate(messages):
        if message["role"] == "assistant":
            check_scores(history.reuse, messages[:stop])
        history.extend([message], COUNTER)
    check_scores(history.reuse, messages)


def check_scores(index: ReuseIndex, messages: list[Json]) -> None:
    expected = [float(c) for c in slow_rules.reuse_scores(messages).values()]
    assert index.scores() == pytest.approx(expected, rel=1e-14, abs=0)
