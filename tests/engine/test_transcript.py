"""Messages come back exactly, whatever is in them."""

from hypothesis import given

from engine.text.tokens import counter_for
from engine.text.transcript import Json, check_messages, restore_call, restore_message, split
from tests.support.fuzzing import HELD, messages

COUNTER = counter_for(None)


def back(message: Json) -> Json:
    head, *calls = split(message, 0, COUNTER)
    return restore_message(head.text, head.shell, [restore_call(c.text, c.shell) for c in calls])


@given(messages())
def test_a_message_comes_back_exactly(message: Json) -> None:
    check_messages([message], 0)
    assert back(message) == message


def test_our_own_mark_is_an_ordinary_text() -> None:
    for message in (
        {"role": "user", "content": "x", "input": HELD, "arguments": HELD, "tool_calls": HELD},
        {"role": "tool", "tool_call_id": "a", "content": HELD, "input": HELD},
    ):
        assert back(message) == message
