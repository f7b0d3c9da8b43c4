"""A history: pairing of results with calls, turns, exact round trips and incremental growth."""

import json

import numpy as np
from contextrender_bridge.engine.history.event_decoding import append_stored
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.text.transcript import (
    Json,
    check_messages,
    digest_after,
    restore_call,
    restore_message,
    split,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support import slow_rules
from tests.support.strategies import (
    COUNTER,
    AxisEmbedder,
    decisions_of,
    history_of,
    modest,
    render,
    snapshot,
    stored_fields,
    transcripts,
)


@given(transcripts())
@modest
def test_messages_survive_split_and_restore(messages: list[Json]) -> None:
    check_messages(messages, 0)
    for position, message in enumerate(messages):
        head, *calls = split(message, position, COUNTER)
        restored = [restore_call(call.text, call.shell) for call in calls]
        message_restored = restore_message(head.text, head.shell, restored)
        assert (message_restored, list(message_restored)) == (message, list(message))
        assert json.dumps(message_restored) == json.dumps(message)
        bare = restore_message(head.text, head.shell)
        assert {**bare, "tool_calls": 0} == {**message, "tool_calls": 0}
        assert bool(bare.get("tool_calls")) is False


@given(transcripts(longest=8))
@modest
def test_pairing_equals_reference(messages: list[Json]) -> None:
    history = history_of(messages)
    answers, numbers = slow_rules.answers(messages), slow_rules.turns(messages)
    for number, position in enumerate(history.results.message):
        assert history.result_at(position) == number
        assert history.results.turn[number] == history.turns[position] == numbers[position]
        message, event = history.results.call_message[number], history.results.call_event[number]
        if position in answers:
            assert (message, event - history.first_events[message] - 1) == answers[position]
        else:
            assert (message, event) == (NO_CALL, NO_CALL)
    assert history.result_at(len(messages)) == -1
    assert list(history.turns) == numbers
    calls = sum(len(message.get("tool_calls") or []) for message in messages)
    assert history.events == len(messages) + calls


@given(transcripts(longest=8))
@modest
def test_token_sizes_equal_reference(messages: list[Json]) -> None:
    history = history_of(messages)
    assert history.total_tokens == slow_rules.tokens(messages, COUNTER.text)
    for position, message in enumerate(messages):
        tokens = slow_rules.own_tokens(message, COUNTER.text)
        assert history.text_tokens[position] == (0 if message["role"] == "tool" else tokens)
    call_of_result = slow_rules.answers(messages)
    for number, position in enumerate(history.results.message):
        assert history.results.tokens[number] == COUNTER.message(messages[position])
        if position in call_of_result:
            call_position, place = call_of_result[position]
            call = messages[call_position]["tool_calls"][place]
            assert history.results.call_tokens[number] == COUNTER.call(call)


@given(transcripts(longest=8), st.data())
@modest
def test_incremental_equals_all_at_once(messages: list[Json], data: st.DataObject) -> None:
    at_once, history = history_of(messages), History()
    at = 0
    while at < len(messages):
        step = data.draw(st.integers(1, 4))
        history.extend(messages[at : at + step], COUNTER)
        at += step
        history.reuse.scores()
        if data.draw(st.booleans()):
            render(messages[:at], 90, history=history)
    lazy_counts = {"missing": 0, "vectors": 0}
    assert snapshot(history) | lazy_counts == snapshot(at_once) | lazy_counts


@given(transcripts(longest=8), st.data())
@modest
def test_history_from_store_equals_live_history(messages: list[Json], data: st.DataObject) -> None:
    live = history_of(messages)
    vectors = {}
    if data.draw(st.booleans(), label="rendered before"):
        render(messages, 90, history=live)
        matrix = live.vectors.matrix(len(live.results))
        vectors = {result: matrix[result] for result in live.vectors.unsaved}
    fields = stored_fields(messages, vectors)
    restarted = History()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=3), label="cuts"))
    for start, stop in zip([0, *cuts], [*cuts, len(messages)], strict=True):
        rows = [row for row in fields if start <= row["position"] < stop]
        append_stored(restarted, rows, AxisEmbedder.name)
    assert snapshot(restarted) == snapshot(live)
    assert decisions_of(render(messages, 150, history=restarted)[0]) == decisions_of(
        render(messages, 150, history=live)[0]
    )


def test_damaged_vector_does_not_stop_reading() -> None:
    results = [{"role": "tool", "tool_call_id": id, "content": f"ORD-{id}"} for id in "ab"]
    fields = stored_fields(results, dict(enumerate(np.eye(3, dtype=np.float32))))
    for size, positions in ((0, []), (4, [0, 1]), (3, [0, 1])):
        damaged = fields[1] | {"embedding": fields[1]["embedding"] + b"\0" * size}
        history = History()
        append_stored(history, [fields[0], damaged], AxisEmbedder.name)
        assert history.vectors.missing_vectors(2) == positions


def test_digest_ignores_only_field_order() -> None:
    message = {"role": "user", "content": "a"}
    digest = digest_after("", message)
    assert digest == digest_after("", dict(reversed(message.items())))
    other_digests = [
        digest_after("x", message),
        digest_after("", {**message, "name": "b"}),
        digest_after("", {**message, "content": ["a"]}),
        digest_after("", {**message, "content": "a "}),
    ]
    assert len({digest, *other_digests}) == 5
