"""Recall measures: a worked case, a reference implementation and sums."""

import re
from typing import Any

from contextrender_bridge.engine.replay.recall_measures import (
    RecallEvent,
    RecallScore,
    recall_events,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.golden import golden
from tests.support.transcripts import assistant, call, result, user

GOLDEN = golden("reuse")
WORDS = ["Alpha_1", "beta_two", "GAMMA9", "plainword", "short_", "Tiny1", "nameA_1"]


def test_recall_events_of_worked_case() -> None:
    expected = [(e["turn"], e["result"], e["age"]) for e in GOLDEN["recall_events"]]
    events = recall_events(GOLDEN["messages"])
    assert [(event.turn, event.result, event.age) for event in events] == expected


texts = st.lists(st.sampled_from(WORDS), max_size=4).map(lambda words: r"\n".join(words))
messages_lists = st.lists(
    st.one_of(
        st.builds(user, texts),
        st.builds(lambda text, arguments: assistant(text, call("c", "f", arguments)), texts, texts),
        st.builds(result, st.just("c"), texts),
    ),
    max_size=14,
)


@given(messages_lists)
@settings(max_examples=60)
def test_recall_events_equal_reference(messages: list[dict[str, Any]]) -> None:
    def values_of(message: dict[str, Any]) -> set[str]:
        text = message["content"] + " "
        for tool_call in message.get("tool_calls", []):
            text += tool_call["function"]["arguments"]
        for escape in ("\\\\", "\\n", "\\t", "\\r"):
            text = text.replace(escape, " ")
        return {w for w in re.findall(r"[A-Za-z0-9_]{6,}", text) if re.search("[A-Z_]", w)}

    expected = []
    for use_position, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        turn = sum(m["role"] == "assistant" for m in messages[: use_position + 1])
        for position in range(use_position):
            if messages[position]["role"] != "tool":
                continue
            before: set[str] = set().union(*map(values_of, messages[:position]), set())
            used_values = (values_of(messages[position]) - before) & values_of(message)
            if used_values:
                result_turn = sum(m["role"] == "assistant" for m in messages[:position])
                number = sum(m["role"] == "tool" for m in messages[:position])
                expected.append(
                    RecallEvent(
                        turn,
                        use_position,
                        number,
                        position,
                        turn - result_turn,
                        frozenset(used_values),
                    )
                )
    assert recall_events(messages) == expected


def event(position: int, age: int, *tokens: str) -> RecallEvent:
    return RecallEvent(9, 20, 0, position, age, frozenset(tokens))


def test_score_sums_events_turns_and_calls() -> None:
    score = RecallScore()
    score.add_turn(
        [event(1, 2, "Aaaaaa"), event(3, 30, "Bbbbbb", "Cccccc")],
        {1},
        [{"role": "tool", "content": "Aaaaaa Bbbbbb"}],
    )
    score.add_turn([], {1}, [])
    score.add_invocation(7_000, 5_000, 6_000)
    score.add_invocation(6_000, 6_000, 6_000)
    assert score.to_json() == {
        "events": 2,
        "events_by_age": {"<=3": 1, "4-10": 0, "11-25": 0, ">25": 1},
        "result_recall": 0.5,
        "result_recall_by_age": {"<=3": 1.0, "4-10": None, "11-25": None, ">25": 0.0},
        "value_recall": 0.75,
        "turns_with_events": 1,
        "turns_with_all_values": 0.0,
        "invocations": 2,
        "over_budget_invocations": 1,
        "tokens_full": 13_000,
        "tokens_rendered": 11_000,
    }
