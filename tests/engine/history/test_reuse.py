"""Tool-Flow Analysis: the worked case, and the rules against a slow rewrite at every invocation."""

from collections import Counter

import pytest
from contextrender_bridge.engine.history.reuse import ReuseIndex
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given

from tests.support import slow_rules
from tests.support.golden import golden
from tests.support.strategies import COUNTER, modest, recorded, transcripts

GOLDEN = golden("reuse")


def test_the_worked_case() -> None:
    history = recorded(GOLDEN["messages"])
    assert history.turn == GOLDEN["invocation"]
    ids = [m["tool_call_id"] for m in GOLDEN["messages"] if m["role"] == "tool"]
    assert dict(zip(ids, history.reuse.scores(), strict=True)) == GOLDEN["reuse_score"]


@given(transcripts(longest=8))
@modest
def test_uses_and_holders_equal_a_slow_rewrite(messages: list[Json]) -> None:
    history = recorded(messages)
    positions = list(history.results.message)
    found = [(use.operation, positions[use.result], list(use.values)) for use in history.reuse.uses]
    assert found == slow_rules.uses(messages)
    held = Counter(
        value
        for message in messages
        if message["role"] == "tool"
        for value in slow_rules.values(slow_rules.text_of(message["content"]))
    )
    assert history.reuse.holders([*held, "unheard_of"]) == dict(held)
    for number, position in enumerate(positions):
        used = {value for _, result, some in found if result == position for value in some}
        assert history.reuse.used_values(number) == sorted(used)


@given(transcripts(longest=8))
@modest
def test_c_equals_a_slow_rewrite_before_every_invocation(messages: list[Json]) -> None:
    history = recorded([])
    for stop, message in enumerate(messages):
        if message["role"] == "assistant":
            check_scores(history.reuse, messages[:stop])
        history.extend([message], COUNTER)
    check_scores(history.reuse, messages)


def check_scores(index: ReuseIndex, messages: list[Json]) -> None:
    expected = [float(c) for c in slow_rules.reuse_scores(messages).values()]
    assert index.scores() == pytest.approx(expected, rel=1e-14, abs=0)
