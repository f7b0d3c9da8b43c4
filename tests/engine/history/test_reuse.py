"""Tool-Flow Analysis: a worked case, a reference, and the rank of kinds that were used."""

import json
from collections import Counter

import pytest
from contextrender_bridge.engine.history.reuse import ReuseIndex
from contextrender_bridge.engine.parameters import Parameters
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given

from tests.support import slow_rules
from tests.support.golden import golden
from tests.support.strategies import COUNTER, history_of, modest, render, transcripts
from tests.support.transcripts import step

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


def listing(batch: int, count: int) -> list[Json]:
    """Return a result with equally many lines of days and of accounts, days first."""
    accounts = [f"ACCT_{batch}{n:04} ACCU_{batch}{n:04} " + "on file " * 20 for n in range(count)]
    days = [f"20{batch}1-{n:04} 20{batch}2-{n:04} " + "on file " * 20 for n in range(count)]
    return step(f"l{batch}", "list", "{}", "\n".join(days + accounts), "")


def accounts_shown(pattern: str) -> float:
    """Return the share of account lines in the second half of the newest excerpt."""
    messages: list[Json] = [{"role": "user", "content": "go on"}, *listing(1, 20)]
    for number in range(20):
        arguments = json.dumps({"account": pattern.format(number)})
        messages += step(f"open{number}", "open", arguments, "done", "")
    messages += listing(2, 200)
    _, prompt = render(messages, 8_000, "contextrender_cache_aware", Parameters())
    lines = prompt[-1]["content"].splitlines()
    body = lines[len(lines) // 2 :]
    matching_lines = [line for line in body if "on file" in line]
    return sum("ACCT" in line for line in matching_lines) / len(matching_lines)


def test_excerpt_prefers_kinds_used_before() -> None:
    assert accounts_shown("ACCT_1{:04}") > accounts_shown("2011-{:04}") + 0.3
