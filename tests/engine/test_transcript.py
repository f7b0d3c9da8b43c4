"""Messages come back exactly, whatever is in them."""

from hypothesis import given
from hypothesis import strategies as st

from engine.text.tokens import counter_for
from engine.text.transcript import Json, check_messages, restore_call, restore_message, split

COUNTER = counter_for(None)
HELD = "\x00held apart"
# Our own mark among the texts, and everywhere a caller might put it.
TEXTS = st.one_of(st.just(HELD), st.text(max_size=8))
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
KEYS = st.one_of(st.sampled_from(["input", "arguments", "name", "tool_calls", "custom"]), TEXTS)
EXTRAS = st.dictionaries(KEYS, JSON, max_size=4)
CONTENTS = st.one_of(
    TEXTS, st.none(), st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}))
)


@st.composite
def calls(draw: st.DrawFn) -> Json:
    kind = draw(st.sampled_from(["function", "custom"]))
    key = {"function": "arguments", "custom": "input"}[kind]
    body = draw(EXTRAS) | {"name": draw(st.text(min_size=1, max_size=5)), key: draw(TEXTS)}
    extras = {k: v for k, v in draw(EXTRAS).items() if k not in ("custom", "function")}
    return extras | {"id": draw(st.text(min_size=1, max_size=4)), "type": kind, kind: body}


@st.composite
def messages(draw: st.DrawFn) -> Json:
    role = draw(st.sampled_from(["system", "user", "assistant", "tool"]))
    message = draw(EXTRAS) | {"role": role, "content": draw(CONTENTS)}
    if role == "assistant":
        message["tool_calls"] = draw(st.lists(calls(), max_size=2))
        if not message["tool_calls"]:
            del message["tool_calls"]
    if role == "tool":
        message["tool_call_id"] = draw(st.text(min_size=1, max_size=4))
    return message


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
