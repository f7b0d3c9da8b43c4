"""A body of which only the new items are parsed is read like the complete body."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from contextrender_bridge.base import wire
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.proxy.bodies import RecentBodies
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.bodies import MAKERS, bodies
from tests.support.strategies import modest

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
WRITERS: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    lambda value: json.dumps(value, indent=1),
]


@given(
    items=st.lists(VALUES, max_size=6),
    first_fields=st.dictionaries(st.text(max_size=4), VALUES, max_size=2),
    last_fields=st.dictionaries(st.text(max_size=4), VALUES, max_size=2),
    write=st.sampled_from(WRITERS),
    data=st.data(),
)
@modest
def test_incremental_parse_equals_full_parse(
    items: list[Any],
    first_fields: Any,
    last_fields: Any,
    write: Callable[[Any], str],
    data: st.DataObject,
) -> None:
    recent_bodies = RecentBodies()
    for count in data.draw(st.lists(st.integers(0, len(items)), min_size=1, max_size=4)):
        messages = [*items[:count], *data.draw(st.lists(VALUES, max_size=2))]
        text = write({**first_fields, "messages": messages, **last_fields})
        assert recent_bodies.read(
            text.encode("utf-8", "surrogatepass"), "messages"
        ).fields == json.loads(text)


@given(dialect=st.sampled_from(sorted(MAKERS)), data=st.data())
@modest
def test_transcript_uses_only_the_common_prefix_of_earlier_bodies(
    dialect: str, data: st.DataObject
) -> None:
    key, reader, recent_bodies = MAKERS[dialect][1], DIALECTS[dialect], RecentBodies()
    body = data.draw(bodies(dialect))
    requests: list[list[Any]] = [body[key]]
    for _ in range(data.draw(st.integers(2, 6))):
        earlier = data.draw(st.sampled_from(requests))
        same = data.draw(st.integers(0, len(earlier)))
        other = data.draw(bodies(dialect))[key]
        requests.append([*earlier[:same], *other[data.draw(st.integers(0, len(other))) :]])
    for items in requests:
        fields = {**body, key: items}
        body_read = recent_bodies.read(wire.dumps(fields), reader.key)
        assert body_read.read(reader).messages == reader.read(fields).messages


def test_transcript_of_another_conversation_is_not_continued() -> None:
    """The cached transcript covered items that differ in the later request."""
    recent_bodies, reader = RecentBodies(), DIALECTS["chat"]
    begin = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    first_items = [*begin, *({"role": "user", "content": f"one {n}"} for n in range(3))]
    other_items = [*begin, *({"role": "user", "content": f"other {n}"} for n in range(5))]
    for items in (
        first_items,
        other_items,
        [*other_items[:-1], {"role": "user", "content": "changed"}],
    ):
        body = {"model": "m", "messages": items}
        assert recent_bodies.read(wire.dumps(body), "messages").read(reader).messages == items


@pytest.mark.parametrize(
    "text",
    [
        ' {"a" : [] , "messages":[ 1 , {"x":[2]} ] }\n',
        '{"messages":[1],"messages":5}',
        '{"messages":"x","messages":[1,2]}',
        '{"a":{"messages":[1]},"messages":[],"b":"]"}',
        '{"messages":["\\ud800", 1e300, 12345678901234567890123]}',
    ],
)
def test_unusual_json_is_read_exactly(text: str) -> None:
    recent_bodies = RecentBodies()
    for _ in range(2):
        assert recent_bodies.read(text.encode(), "messages").fields == json.loads(text)


@pytest.mark.parametrize("text", ['{"messages":[1,]}', '{"messages":[1]} x', '{"messages":[1', ""])
def test_invalid_json_after_known_prefix_is_refused(text: str) -> None:
    recent_bodies = RecentBodies()
    recent_bodies.read(b'{"messages":[1]}', "messages")
    with pytest.raises(ValueError):
        recent_bodies.read(text.encode(), "messages")
