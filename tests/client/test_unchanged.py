"""The client reads each message of a history once and notices later changes."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge import ContextRender
from contextrender_bridge.base.wire import Json, loads
from contextrender_bridge.client import history_cache
from contextrender_bridge.client.history_cache import (
    HistoryCache,
    Key,
    UnchangedItems,
    container_blocks,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.client.conftest import history
from tests.dialects.bodies import MAKERS, bodies
from tests.support.strategies import modest


@pytest.fixture
def offsets(client: ContextRender) -> list[int]:
    sent_offsets: list[int] = []
    hooks = {"request": [lambda request: sent_offsets.append(loads(request.content)["offset"])]}
    client._http.event_hooks = hooks
    return sent_offsets


def holders(value: Any) -> Iterator[Any]:
    """Yield every non-empty dict and list."""
    if isinstance(value, (dict, list)) and value:
        yield value
        for child in value.values() if isinstance(value, dict) else value:
            yield from holders(child)


@given(data=st.data())
@modest
def test_any_replaced_value_is_noticed(data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(sorted(MAKERS)))
    items = data.draw(bodies(dialect))[MAKERS[dialect][1]]
    cut = data.draw(st.integers(0, len(items)))
    unchanged = UnchangedItems()
    for part in (items[:cut], items[cut:]):
        blocks = container_blocks(part)
        assert blocks is not None
        unchanged.add(part, blocks)
    assert unchanged.are_start_of(items)
    assert unchanged.are_start_of([*copy.deepcopy(items), {"role": "user", "content": "More."}])
    places = list(holders(items))
    if not places:
        return
    place = data.draw(st.sampled_from(places))
    at = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
    as_it_was = copy.deepcopy(items)
    match data.draw(st.sampled_from(("put", "take", "add"))):
        case "put":
            place[at] = "another value"
        case "take":
            del place[at]
        case "add" if isinstance(place, dict):
            place["one more"] = "value"
        case "add":
            place.insert(at, "one more")
    assert unchanged.are_start_of(items) is (items == as_it_was)


def test_old_messages_of_a_long_history_are_checked_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("contextrender_bridge.client.history_cache.BLOCK_CONTAINERS", 8)
    items: list[Json] = [{"role": "user", "content": [f"text {n}"]} for n in range(640)]
    blocks = container_blocks(items)
    assert blocks is not None
    unchanged = UnchangedItems()
    unchanged.add(items, blocks)
    assert all(unchanged.are_start_of(items) for _ in range(5))
    for old in (0, 200, 383):
        (text,) = items[old]["content"]
        items[old]["content"][0] = "another text"
        assert not all(unchanged.are_start_of(items) for _ in range(2))
        items[old]["content"][0] = text
    items[-1]["content"][0] = "another text"
    assert not unchanged.are_start_of(items)


@pytest.mark.parametrize("method", ["fit", "render"])
def test_history_changed_in_place_is_sent_again(
    client: ContextRender, offsets: list[int], session: str, method: str
) -> None:
    messages = history(3)

    def call(name: str) -> Any:
        if method == "render":
            return client.render(name, messages)["digest"]
        fit = client.fit(name, messages, fail_open=False, deadline=60)
        assert fit.reply is not None
        return fit.reply["digest"]

    call(session)
    messages += history(4)[-2:]
    call(session)
    assert offsets == [0, 7]
    messages[2]["content"] = "Nothing is well."
    changed = call(session)
    assert offsets[2] == 0
    assert call(f"{session} anew") == changed
    assert call(session) == changed
    assert offsets[-1] == len(messages)


def test_large_history_is_forgotten_but_stays_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_cache, "LARGE_CHARACTERS", 1_000)
    cache, histories = HistoryCache(), {"large": 2_000, "small": 10}
    for session, characters in histories.items():
        messages = [{"role": "user", "content": "x" * characters}]
        key = Key(None, session, "")
        cache.remember(key, cache.snapshot(key, messages, None, None), "d")
    cache.drop_large()
    for session, characters in histories.items():
        key, messages = Key(None, session, ""), [{"role": "user", "content": "x" * characters}]
        assert (cache.find(key, messages) is None) == (session == "large")
        assert cache.snapshot(key, messages, None, None).prefix.messages == 1
