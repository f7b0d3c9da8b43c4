"""Generated JSON, messages and bodies for tests that must hold for any input."""

import json
import os
from typing import Any

from contextrender_bridge.base.wire import Json
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

SHELL_MARK = "\x00held apart"
"""The internal mark in stored shells, used here as input in all places."""

fuzz = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "4")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[*HealthCheck],
)
TEXTS = st.one_of(st.just(SHELL_MARK), st.text(max_size=8))
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
    """Draw a tool call with unknown fields."""
    kind = draw(st.sampled_from(["function", "custom"]))
    key = {"function": "arguments", "custom": "input"}[kind]
    body = draw(EXTRAS) | {"name": draw(st.text(min_size=1, max_size=5)), key: draw(TEXTS)}
    extras = {k: v for k, v in draw(EXTRAS).items() if k not in ("custom", "function")}
    return extras | {"id": draw(st.text(min_size=1, max_size=4)), "type": kind, kind: body}


@st.composite
def messages(draw: st.DrawFn) -> Json:
    """Draw a message with unknown fields."""
    role = draw(st.sampled_from(["system", "user", "assistant", "tool"]))
    message = draw(EXTRAS) | {"role": role, "content": draw(CONTENTS)}
    if role == "assistant":
        message["tool_calls"] = draw(st.lists(calls(), max_size=2))
        if not message["tool_calls"]:
            del message["tool_calls"]
    if role == "tool":
        message["tool_call_id"] = draw(st.text(min_size=1, max_size=4))
    return message


@st.composite
def damaged_copy(draw: st.DrawFn, right: Any) -> Any:
    """Draw `right` with one value at any depth replaced, removed or added."""
    if not isinstance(right, dict | list) or not right or draw(st.integers(0, 3)) == 0:
        return draw(JSON)
    keys = [*right] if isinstance(right, dict) else [*range(len(right))]
    key = draw(st.sampled_from(keys))
    copied = right.copy()
    if draw(st.integers(0, 4)) == 0:
        del copied[key]
    else:
        copied[key] = draw(damaged_copy(right[key]))
    return copied | draw(EXTRAS) if isinstance(copied, dict) and draw(st.booleans()) else copied


@st.composite
def raw(draw: st.DrawFn, right: Any) -> bytes:
    body = json.dumps(draw(damaged_copy(right))).encode()
    cut = st.integers(0, len(body)).map(lambda length: body[:length])
    return draw(st.one_of(st.just(body), st.binary(), cut))
