"""Without settings an agent gets `contextrender_cache_aware` with the automatic budget."""

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
    """Start a proxy without settings; each result has about 1,600 tokens."""
    monkeypatch.setattr(agents, "FILLER", FILLER * 10)
    return start(budget=None, policy=None)


@pytest.mark.parametrize("kind", AGENTS)
def test_newest_result_is_complete_within_budget(live: Setup, kind: type[Agent]) -> None:
    agent = kind(live, uuid.uuid4().hex).add_turns(TURNS - 4)
    results = agent.results(agent.run(4)[-1][agent.key])
    assert len(results) < TURNS
    assert finding(TURNS - 2).strip() in results[-1]
    headers = agent.response.headers
    before, after = (int(headers[f"x-contextrender-tokens-{n}"]) for n in ("before", "after"))
    assert before > BUDGET >= after
    assert live.proxy.histories.failures.counts() == {}


def test_prompt_repeats_previous_one_unless_results_are_dropped(live: Setup) -> None:
    agent = MessagesAgent(live, uuid.uuid4().hex).add_turns(TURNS - 12)
    prompts = [[without_breakpoints(item) for item in body["messages"]] for body in agent.run(20)]
    repeats = [after[: len(before)] == before for before, after in pairwise(prompts)]
    assert 1 <= repeats.count(False) <= 4


def test_rendered_prompt_has_cache_breakpoints(live: Setup) -> None:
    # The agent marks its last message now.
    agent = MessagesAgent(live, uuid.uuid4().hex).add_turns(TURNS - 12)
    messages = [body["messages"] for body in agent.run(12)]
    marks = [[n for n, item in enumerate(items) if MARK in json.dumps(item)] for items in messages]
    assert marks[0] == [len(messages[0]) - 1]
    assert marks[-1][-1] == len(messages[-1]) - 1
    full = [mark for mark in marks if len(mark) > 2]
    assert any(before[:-1] == after[:-1] for before, after in pairwise(full))


MARK = '"cache_control"'


def without_breakpoints(item: Json) -> Json:
    """Return a message without cache breakpoints, its text as a list of blocks."""
    content = item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    plain = [{key: block[key] for key in block if key != "cache_control"} for block in blocks]
    return {**item, "content": plain}


def test_cache_lifetime_is_sent_to_service(live: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    render, sent_parameters = live.proxy.histories.client.render, []

    async def recording_render(*args: Any, **fields: Any) -> Any:
        sent_parameters.append(fields["parameters"])
        return await render(*args, **fields)

    monkeypatch.setattr(live.proxy.histories.client, "render", recording_render)
    agent = MessagesAgent(live, uuid.uuid4().hex)
    agent.run(1)
    agent.extra["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    agent.run(1)
    assert sent_parameters == [{"cache_ttl_minutes": 5.0}, {"cache_ttl_minutes": 60.0}]
