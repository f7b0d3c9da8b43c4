"""An agent that sets nothing gets `contextrender_cache_aware` with the automatic budget."""

import json
import uuid
from itertools import pairwise
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.proxy import agents
from tests.proxy.agents import AGENTS, FILLER, Agent, MessagesAgent, finding
from tests.proxy.conftest import Setup, Start

BUDGET = 24_000
TURNS = 24


@pytest.fixture
def live(start: Start, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """A proxy without settings; every result has some 1,600 tokens."""
    monkeypatch.setattr(agents, "FILLER", FILLER * 10)
    return start(budget=None, policy=None)


@pytest.mark.parametrize("kind", AGENTS)
def test_the_newest_result_is_complete_and_the_rest_fits(live: Setup, kind: type[Agent]) -> None:
    agent = kind(live, uuid.uuid4().hex).grown(TURNS - 4)
    shown = agent.results(agent.run(4)[-1][agent.key])
    assert len(shown) < TURNS
    assert finding(TURNS - 2).strip() in shown[-1]
    headers = agent.got.headers
    before, after = (int(headers[f"x-contextrender-tokens-{n}"]) for n in ("before", "after"))
    assert before > BUDGET >= after
    assert live.proxy.histories.failures.counts() == {}


def test_a_prompt_begins_as_the_last_one_but_where_something_leaves(live: Setup) -> None:
    agent = MessagesAgent(live, uuid.uuid4().hex).grown(TURNS - 12)
    sent = [[unmarked(item) for item in body["messages"]] for body in agent.run(20)]
    kept = [after[: len(before)] == before for before, after in pairwise(sent)]
    assert 1 <= kept.count(False) <= 4


def test_a_shortened_prompt_is_marked_for_the_cache(live: Setup) -> None:
    agent = MessagesAgent(live, uuid.uuid4().hex).grown(TURNS - 12)  # marks its last message now
    sent = [body["messages"] for body in agent.run(12)]
    marks = [[n for n, item in enumerate(items) if MARK in json.dumps(item)] for items in sent]
    assert marks[0] == [len(sent[0]) - 1]
    assert marks[-1][-1] == len(sent[-1]) - 1
    full = [one for one in marks if len(one) > 2]
    assert any(one[:-1] == other[:-1] for one, other in pairwise(full))


MARK = '"cache_control"'


def unmarked(item: Json) -> Json:
    """A message without its marks, its text in a list."""
    content = item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    plain = [{key: block[key] for key in block if key != "cache_control"} for block in blocks]
    return {**item, "content": plain}


def test_the_service_hears_a_caches_lifetime(live: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    render, heard = live.proxy.histories.client.render, []

    async def hearing(*given: Any, **named: Any) -> Any:
        heard.append(named["parameters"])
        return await render(*given, **named)

    monkeypatch.setattr(live.proxy.histories.client, "render", hearing)
    agent = MessagesAgent(live, uuid.uuid4().hex)
    agent.run(1)
    agent.extra["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    agent.run(1)
    assert heard == [{"cache_ttl_minutes": 5.0}, {"cache_ttl_minutes": 60.0}]
