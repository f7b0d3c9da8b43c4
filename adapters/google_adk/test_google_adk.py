"""ADK with the example's agent: results are omitted from its calls and restored."""

import json

from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, python_of
from tests.support.scripted_model import ModelRequest, Reply, json_reply


def test_example_omits_and_restores_results(loopback: Loopback) -> None:
    script = hosts.run_example("google_adk", loopback.model, loopback.environment())
    loopback.check(script)


def test_parallel_calls_are_valid_for_gemini(loopback: Loopback) -> None:
    gemini = Gemini()
    loopback.model.answer = gemini.answer
    environment = loopback.environment(
        GOOGLE_GEMINI_BASE_URL=loopback.model.url, GOOGLE_API_KEY="none"
    )
    process = run([python_of("google_adk"), ADAPTERS / "google_adk" / "gemini.py"], environment)
    assert process.stdout.splitlines() == ["So much for now.", "So much for now.", "True"]
    assert UNCHANGED not in process.stderr

    marks = [f"the next is host_{number}_X" for number in range(1, 25)]
    assert len(gemini.requests) == 14
    for body in gemini.requests:
        check(body["contents"])
        assert sum(mark in json.dumps(body) for mark in marks) < len(marks) / 2
    # In one request only one of two parallel calls was shown.
    assert 1 in {len(calls_of(content)) for body in gemini.requests for content in body["contents"]}
    assert "YSBwaWN0dXJl" in json.dumps(gemini.requests[-1])
    (session,) = loopback.sessions()
    assert session["session"] == "two by two"
    # An instruction whose place changes with every call is not recorded, so it starts no branch.
    assert session["branches"] <= 3


def check(contents: list[Json]) -> None:
    """Check the contents by Gemini's rules: calls follow the user or results, the first call is
    signed, and results follow in order.
    """
    before: Json = {}
    open_ids: list[str] = []
    for content in contents:
        results = [part["functionResponse"] for part in content["parts"] if is_result(part)]
        assert [result["name"] for result in results] == open_ids
        calls = calls_of(content)
        if calls:
            assert before["role"] == "user"
            assert calls[0]["thoughtSignature"]
            assert "id" not in calls[0]["functionCall"]
        open_ids = [call["functionCall"]["name"] for call in calls]
        before = content
    assert not open_ids


def calls_of(content: Json) -> list[Json]:
    return [part for part in content["parts"] if "functionCall" in part]


def is_result(part: Json) -> bool:
    return "functionResponse" in part


class Gemini:
    """A double of Gemini's API: twelve steps of two calls each, in two turns."""

    def __init__(self) -> None:
        self.requests: list[Json] = []

    def answer(self, request: ModelRequest) -> Reply:
        self.requests.append(request.json)
        number = len(self.requests) - 1
        parts: list[Json] = [{"text": "So much for now."}]
        if number % 7 < 6:
            first = 2 * (number - number // 7)
            parts = [{"text": "The next two."}] if number % 2 else []
            parts += [
                {"functionCall": {"name": "look", "args": {"host": f"host_{first}_X"}}},
                {"functionCall": {"name": "look", "args": {"host": f"host_{first + 1}_X"}}},
            ]
            parts[-2]["thoughtSignature"] = "c2lnbmVk"
        content = {"role": "model", "parts": parts}
        return json_reply({"candidates": [{"content": content, "finishReason": "STOP"}]})
