"""A share of sessions goes through whole, to compare the others with."""

import uuid
from typing import Any

import pytest
from contextrender_bridge.proxy.controls import is_held_out

from tests.proxy.agents import AGENTS, ChatAgent
from tests.proxy.conftest import Start


def named(*, held: bool) -> str:
    return next(s for s in iter(lambda: uuid.uuid4().hex, "") if is_held_out(s, 0.1) == held)


@pytest.mark.parametrize("kind", AGENTS)
def test_held_out_sessions_go_whole_and_are_recorded(start: Start, kind: Any) -> None:
    setup = start(holdout=0.1)
    agent = kind(setup, held := named(held=True))
    sent = agent.run(10)
    assert sent[-1][agent.key] == agent.items[: len(sent[-1][agent.key])]
    assert agent.got.headers["x-contextrender-whole"] == "holdout"
    assert setup.service.inspect_session(held)["session"]["results"] == 9
    other = kind(setup, named(held=False))
    shown = other.run(10)[-1][other.key]
    assert len(other.results(shown)) < 9
    assert "x-contextrender-whole" not in other.got.headers


def test_about_the_share_is_held_out() -> None:
    names = [f"session {number}" for number in range(4000)]
    held = {name for name in names if is_held_out(name, 0.1)}
    assert 300 < len(held) < 500
    assert held < {name for name in names if is_held_out(name, 0.3)}
    assert not any(is_held_out(name, 0.0) for name in names)


def test_gateways_get_it_whole(start: Start) -> None:
    setup = start(holdout=0.1)
    agent = ChatAgent(setup)
    for number in range(10):
        agent.take(number, number)
    body = {"messages": agent.items, "model": "gpt-4o"}
    made = setup.post("/v1/compress", body, x_contextrender_session=named(held=True)).json()
    assert (made["messages"], made["tokens_saved"]) == (agent.items, 0)
    made = setup.post("/v1/compress", body, x_contextrender_session=named(held=False)).json()
    assert made["tokens_saved"] > 0
