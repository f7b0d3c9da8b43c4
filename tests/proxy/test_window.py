"""A history longer than the model's window, and a model that refuses it."""

import json
import re
import uuid

import pytest
from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.wire import Json

from tests.proxy import agents
from tests.proxy.agents import AGENTS, FILLER, Agent
from tests.proxy.conftest import Setup, Start
from tests.support.scripted_model import ModelRequest, Reply, json_reply

WINDOW = 8_000
BYTES = 4
WORDINGS = [
    "This model's maximum context length is {most} tokens. However, your messages resulted in "
    "{count} tokens.",
    "prompt is too long: {count} tokens > {most} maximum",
    "Your input exceeds the context window of this model.",
]


class ModelWithWindow:
    """A double of a model that refuses more than `WINDOW` tokens of four bytes."""

    def __init__(self, setup: Setup, wording: str) -> None:
        self.prompts: list[Json] = []
        self.refusal_count = 0
        self.wording = wording
        self._answer = json_reply({"id": "1", "usage": {}})
        setup.model.answer = self

    def __call__(self, request: ModelRequest) -> Reply:
        body, count = request.json, len(request.body) // BYTES
        if count > WINDOW:
            self.refusal_count += 1
            error_text = self.wording.format(most=WINDOW, count=count)
            error = {"type": "invalid_request_error", "message": error_text}
            return json_reply({"error": error}, 400)
        self.prompts.append(body)
        return self._answer


def agent_with_turns(kind: type[Agent], setup: Setup, turns: int) -> Agent:
    """Return an agent with this many turns that the service does not have yet."""
    agent = kind(setup, uuid.uuid4().hex).add_turns(turns)
    agent.extra["model"] = "own-model"
    return agent


@pytest.fixture
def setup_without_service(start: Start, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """Start a proxy without a service; a result has about 450 tokens."""
    monkeypatch.setattr(agents, "FILLER", FILLER * 3)
    return start(url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("kind", "wording"), [(kind, WORDINGS[number % 3]) for number, kind in enumerate(AGENTS)]
)
def test_refused_history_is_truncated_without_service(
    setup_without_service: Setup, kind: type[Agent], wording: str
) -> None:
    agent = agent_with_turns(kind, setup_without_service, 60)
    all_of_it = agent.results(agent.items)
    model = ModelWithWindow(setup_without_service, wording)
    assert len(json.dumps(agent.items)) // BYTES > 1.5 * WINDOW
    response = agent.post()
    assert response.status_code == 200, response.text
    assert "x-contextrender-truncated-to" in response.headers
    results = agent.results(model.prompts[-1][agent.key])
    assert results == all_of_it[-len(results) :]
    assert len(json.dumps(model.prompts[-1])) // BYTES > WINDOW / 2
    assert agents.TASK in json.dumps(model.prompts[-1])
    text = json.dumps(model.prompts[-1])
    matches = re.findall(r'"(?:tool_call_id|tool_use_id)": "(\w+)"', text)
    assert all(text.count(f'"{name}"') >= 2 for name in matches)
    # The proxy remembers the refusal.
    refusal_count = model.refusal_count
    assert agent.post().status_code == 200
    assert model.refusal_count == refusal_count
    sizes = [len(json.dumps(body)) for body in model.prompts]
    assert "{count}" not in wording or sizes[-1] >= 0.95 * sizes[0]


def test_compaction_is_truncated_to_window(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "FILLER", FILLER * 3)
    setup = start()
    agent = agent_with_turns(AGENTS[0], setup, 60)
    model = ModelWithWindow(setup, WORDINGS[0])
    response = agent.post(x_contextrender_compaction="on")
    assert response.status_code == 200, response.text
    assert response.headers["x-contextrender-full-history"] == "compaction"
    assert len(json.dumps(model.prompts[-1])) // BYTES > 0.75 * WINDOW
    refusal_count = model.refusal_count
    assert agent.post(x_contextrender_compaction="on").status_code == 200
    assert model.refusal_count == refusal_count  # the proxy remembers the refusal


def test_other_refusal_is_forwarded(setup_without_service: Setup) -> None:
    agent = agent_with_turns(AGENTS[0], setup_without_service, 3)
    setup_without_service.model.script = [json_reply({"error": {"message": "no such model"}}, 400)]
    response = agent.post()
    assert (response.status_code, response.json()["error"]["message"]) == (400, "no such model")
    assert len(setup_without_service.model.requests) == 1
    assert setup_without_service.model.requests[0].json[agent.key] == agent.items


def test_observed_history_is_never_truncated(setup_without_service: Setup) -> None:
    agent = agent_with_turns(AGENTS[0], setup_without_service, 60)
    ModelWithWindow(setup_without_service, WORDINGS[0])
    assert agent.post(x_contextrender_mode="observe").status_code == 400


def test_single_long_result_is_truncated(
    setup_without_service: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "FILLER", FILLER * 200)
    agent = agent_with_turns(AGENTS[0], setup_without_service, 2)
    model = ModelWithWindow(setup_without_service, WORDINGS[0])
    assert agent.post().status_code == 200
    (result,) = agent.results(model.prompts[-1][agent.key])
    assert "cut to fit" in result


@pytest.mark.parametrize("kind", AGENTS)
def test_single_long_user_message_is_truncated(
    setup_without_service: Setup, monkeypatch: pytest.MonkeyPatch, kind: type[Agent]
) -> None:
    monkeypatch.setattr(agents, "TASK", f"{agents.TASK} {'A long log. ' * 5_000}So much for that.")
    agent = agent_with_turns(kind, setup_without_service, 3)
    model = ModelWithWindow(setup_without_service, WORDINGS[0])
    assert agent.post().status_code == 200
    request_text = json.dumps(model.prompts[-1])
    assert "Find out which hosts are slow" in request_text and "So much for that." in request_text
    assert "cut to fit" in request_text
    assert len(agent.results(model.prompts[-1][agent.key])) >= 1


def test_truncated_first_message_keeps_its_blocks(setup_without_service: Setup) -> None:
    """Only its longest block is truncated."""
    mark: Json = {"cache_control": {"type": "ephemeral"}}
    texts = ["You are in /work.", f"Begin. {'A long log. ' * 9_000}End.", "So much for that."]
    blocks = [
        {"type": "text", "text": text, **(mark if text is texts[-1] else {})} for text in texts
    ]
    model = ModelWithWindow(setup_without_service, WORDINGS[0])
    for path, fields in (("/v1/messages", {"max_tokens": 9}), ("/v1/chat/completions", {})):
        body = {"model": "m", "messages": [{"role": "user", "content": blocks}], **fields}
        assert setup_without_service.post(path, body).status_code == 200
        content = model.prompts[-1]["messages"][0]["content"]
        assert [block["type"] for block in content] == ["text"] * 3
        assert (content[0], content[2]) == (blocks[0], blocks[2])
        assert content[1]["text"].startswith("Begin. A long") and content[1]["text"].endswith(
            "log. End."
        )
        assert "cut to fit" in content[1]["text"]


def test_budget_follows_the_refused_window(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "FILLER", FILLER * 3)
    setup = start(budget=2 * WINDOW, policy="contextrender_cache_aware")
    agent = agent_with_turns(AGENTS[0], setup, 60)
    model = ModelWithWindow(setup, WORDINGS[0])
    assert (agent.post().status_code, model.refusal_count > 0) == (200, True)
    refusal_count = model.refusal_count
    second = agent.post()
    assert (second.status_code, model.refusal_count) == (200, refusal_count)
    assert "x-contextrender-truncated-to" not in second.headers
    assert int(second.headers["x-contextrender-tokens-after"]) > WINDOW / 3
    assert "x-contextrender-fail-open" not in second.headers


@pytest.mark.parametrize("kind", AGENTS)
def test_history_that_fits_is_sent_whole_whatever_its_bytes(
    setup_without_service: Setup, kind: type[Agent]
) -> None:
    """A table's window and an estimate of tokens from bytes do not cut a history."""
    agent = agent_with_turns(kind, setup_without_service, 60)
    agent.extra["model"] = "gpt-4"
    assert len(json.dumps(agent.items)) > 6 * (window_of("gpt-4") or 0) > 0
    setup_without_service.model.answer = lambda _: json_reply({"id": "1", "usage": {}})
    response = agent.post()
    (request,) = setup_without_service.model.requests
    assert request.json == agent.body
    assert "x-contextrender-truncated-to" not in response.headers
    assert response.headers["x-contextrender-fail-open"] == "unreachable"


@pytest.mark.parametrize("turns", [(3, 60), (60, 3)])
def test_refusal_without_numbers_cuts_no_other_history(
    setup_without_service: Setup, turns: tuple[int, int]
) -> None:
    """Such a refusal does not give the model's window, also if another refusal has numbers."""
    model = setup_without_service.model
    for count in turns:
        agent = agent_with_turns(AGENTS[0], setup_without_service, count)
        if count == 60:
            ModelWithWindow(setup_without_service, WORDINGS[0])
        else:
            error = {"code": "context_length_exceeded", "message": "too long"}
            model.answer = lambda _, error=error: json_reply({"error": error}, 400)
        assert agent.post().status_code == (200 if count == 60 else 400)
    other = agent_with_turns(AGENTS[0], setup_without_service, 12)
    ModelWithWindow(setup_without_service, WORDINGS[0])
    assert "x-contextrender-truncated-to" not in other.post().headers
    assert model.requests[-1].json == other.body


@pytest.mark.parametrize("turns", [0, 1, 60])
@pytest.mark.parametrize(
    ("kind", "wording"), [(kind, WORDINGS[number % 3]) for number, kind in enumerate(AGENTS)]
)
def test_reply_reports_exactly_the_cuts_of_its_request(
    setup_without_service: Setup, kind: type[Agent], turns: int, wording: str
) -> None:
    """This holds however often the request is refused, and also if nothing more can be cut."""
    agent = agent_with_turns(kind, setup_without_service, turns)
    error = {"type": "invalid_request_error", "message": wording.format(most=4, count=9_000)}
    setup_without_service.model.answer = lambda _: json_reply({"error": error}, 400)
    for _ in range(3):
        response = agent.post()
        is_cut = setup_without_service.model.requests[-1].json != agent.body
        assert ("x-contextrender-truncated-to" in response.headers) == is_cut
        agent.add_turns(1)
