"""Histories above the budget: results are omitted, and restored when the agent uses them again."""

import asyncio
import re
import threading
import uuid
from typing import Any

import pytest
from contextrender_bridge.dialects import OBSERVATIONS
from contextrender_bridge.dialects.message_plan import OMITTED_TEXT
from contextrender_bridge.dialects.observations import NOT_SHOWN

from tests.proxy.agents import EACH_WAY, Agent, ChatAgent, MessagesAgent
from tests.proxy.conftest import Setup, Start
from tests.support.transcripts import assistant, user
from tests.support.waiting import wait_until

INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nIt is 12:0"


@pytest.fixture
def session() -> str:
    return uuid.uuid4().hex


@pytest.mark.parametrize(("kind", "streams"), EACH_WAY)
def test_results_are_omitted_and_restored(
    setup: Setup, session: str, kind: type[Agent], streams: bool
) -> None:
    agent = kind(setup, session, streams=streams)
    request_bodies = agent.run(10)
    assert request_bodies[0][agent.key] == agent.items[: len(request_bodies[0][agent.key])]
    assert len(agent.results(request_bodies[9][agent.key])) < 9
    assert not any(
        "host_1_X answers" in text for text in agent.results(request_bodies[9][agent.key])
    )
    # The model quotes a value of the first result, which is restored.
    later_bodies = agent.run(4, {10: 1, 11: 1, 12: 1})
    assert any("host_1_X answers" in text for text in agent.results(later_bodies[-1][agent.key]))
    assert int(agent.response.headers["x-contextrender-omitted"]) > 0
    assert agent.response.headers["x-contextrender-session"] == session
    before = int(agent.response.headers["x-contextrender-tokens-before"])
    assert 600 >= int(agent.response.headers["x-contextrender-tokens-after"]) < before
    assert setup.service.inspect_session(session)["session"]["branches"] == 1
    for body in [*request_bodies, *later_bodies]:
        for item in body[agent.key]:
            text = item.get("content")
            texts = str(text).split("\n\nThought") if item.get("role") == "assistant" else []
            is_original = item in agent.items or OMITTED_TEXT in str(item)
            assert is_original or "cache_control" in str(item) or len(texts) > 1


def test_observe_mode_sends_full_history(setup: Setup, session: str) -> None:
    agent = ChatAgent(setup, session).add_turns(7)
    agent.headers = {"x-contextrender-mode": "observe"}
    assert len(agent.results(agent.run(1)[0]["messages"])) == 7
    headers = agent.response.headers
    # The headers describe the prompt that rendering would have sent.
    before, after = (int(headers[f"x-contextrender-tokens-{n}"]) for n in ("before", "after"))
    assert after <= 600 < before
    assert int(headers["x-contextrender-omitted"]) > 0


def test_bypass_mode_records_nothing(setup: Setup, session: str) -> None:
    agent = ChatAgent(setup, session).add_turns(7)
    agent.headers = {"x-contextrender-mode": "bypass"}
    assert len(agent.results(agent.run(1)[0]["messages"])) == 7
    assert not any(name.startswith("x-contextrender") for name in agent.response.headers)
    assert all(s["session"] != session for s in setup.service.list_sessions()["sessions"])


def test_headers_set_budget_and_policy(setup: Setup, session: str) -> None:
    agent = ChatAgent(setup, session)
    agent.headers = {"x-contextrender-budget": "100000"}
    assert len(agent.results(agent.add_turns(7).run(1)[0]["messages"])) == 7
    agent.headers = {"x-contextrender-budget": "400", "x-contextrender-policy": "prune"}
    assert 0 < len(agent.results(agent.run(1)[0]["messages"])) < 4


def test_moving_message_stays_last_and_is_not_recorded(setup: Setup, session: str) -> None:
    agent = ChatAgent(setup, session)
    for number in range(8):
        internal_message = user(f"{INTERNAL}{number}")
        agent.items.append(internal_message)
        messages = agent.run(1)[0]["messages"]
        agent.items.remove(internal_message)
        assert messages[-1] == internal_message
        assert messages.count(internal_message) == 1
    assert setup.service.inspect_session(session)["session"]["branches"] == 1


def test_changing_system_prompt_makes_no_branch(setup: Setup, session: str) -> None:
    agent = MessagesAgent(setup, session)
    for number in range(6):
        head = {"type": "text", "text": f"x-anthropic-billing-header: cch={number};"}
        prompt = {"type": "text", "text": f"Be brief. It is 12:0{number}.", "cache_control": {}}
        agent.extra["system"] = [head, prompt]
        assert agent.run(1)[0]["system"] == [head, prompt]
    assert setup.service.inspect_session(session)["session"]["branches"] == 1


def test_system_messages_keep_valid_positions(setup: Setup, session: str) -> None:
    agent = MessagesAgent(setup, session)
    for number in range(10):
        if number == 4:
            agent.items.append(user("Go on."))
        block = {"type": "text", "text": f"{number} tokens left."}
        reminder = {"role": "system", "content": [block, {"type": "text", "text": "Be quick."}]}
        agent.items.append(reminder)
        messages = agent.run(1)[0]["messages"]
        # Claude Code rewrites a reminder like this once a newer one follows.
        reminder["content"] = block["text"]
        roles = "".join(item["role"][0] for item in messages)
        assert roles.count("s") == number + 1
        assert not re.search("^s|as|su", roles)
    assert len(agent.results(messages)) < 9
    assert setup.service.inspect_session(session)["session"]["branches"] == 1


def test_two_agents_of_one_session_have_two_branches(setup: Setup, session: str) -> None:
    main, helper = ChatAgent(setup, session), ChatAgent(setup, session)
    helper.items[1] = user("Another task.")
    for _ in range(6):
        main.run(1)
        request_body = helper.run(1)[0]
    assert request_body["messages"][1]["content"] == "Another task."
    assert setup.service.inspect_session(session)["session"]["branches"] == 2


def test_images_are_sent_and_not_recorded(setup: Setup, session: str) -> None:
    agent = ChatAgent(setup, session)
    data = "data:image/png;base64," + "QUJD" * 1000
    image = {"type": "image_url", "image_url": {"url": data}}
    agent.items[1]["content"].append(image)
    assert image in agent.add_turns(7).run(1)[0]["messages"][1]["content"]
    assert "QUJDQUJD" not in str(setup.service.export_session(session))


def test_call_that_surely_fits_does_not_wait_for_service(start: Start, session: str) -> None:
    setup = start(budget=100_000)
    client = setup.proxy.histories.client
    render, is_released = client.render, threading.Event()
    started_sizes, finished_sizes = list[int](), list[int]()

    async def render_slowly(*args: Any, **options: Any) -> Any:
        started_sizes.append(len(args[1]))
        while not is_released.is_set():
            await asyncio.sleep(0.01)
        reply = await render(*args, **options)
        finished_sizes.append(len(args[1]))
        return reply

    client.render = render_slowly  # type: ignore[method-assign]
    ChatAgent(setup, session).run(8)
    assert not finished_sizes
    # Calls are recorded one after the other.
    wait_until(lambda: len(started_sizes) == 1)
    is_released.set()
    wait_until(lambda: len(finished_sizes) == 8)
    assert finished_sizes == started_sizes == sorted(started_sizes)
    assert setup.service.inspect_session(session)["session"]["branches"] == 1
    assert setup.proxy.histories.failures.counts() == {}


def test_prompt_never_ends_with_assistant_message() -> None:
    messages = [user("Find out.")]
    for number, words in enumerate(("I look.", "Again.")):
        messages += [assistant(words), user(f"Observation: {number}")]
    transcript = OBSERVATIONS.read({"messages": messages})
    plan = transcript.plan({"message": n, "calls": []} for n in (0, 1, 3))
    *before, last = transcript.apply(plan)["messages"]
    assert before == [*messages[:2], user(NOT_SHOWN), messages[3]]
    assert last == user(NOT_SHOWN)
