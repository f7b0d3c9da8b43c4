"""History summaries through byLLM and LiteLLM, with a double of an OpenAI server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.baselines.summaries import SummaryFailed, write_summary

from tests.support.provider_double import ProviderDouble, chat_reply, failure, provider_of_process

pytestmark = pytest.mark.slow

MODEL = "openai/scripted-chat"
HISTORY = (
    '[1] user:\nFix it.\n[2] call of cat: {"path": "/srv/app.toml"}\n[3] result of cat:\nport = 80'
)
SLOTS = ("files_read", "key_observations", "commands_run", "decisions", "unresolved_questions")


@pytest.fixture
def double() -> Iterator[ProviderDouble]:
    with provider_of_process(lambda _: (200, notes(key_observations=["port = 80"]))) as served:
        yield served


def notes(**slots: list[str]) -> dict[str, Any]:
    return chat_reply({name: slots.get(name, []) for name in SLOTS})


def test_typed_slots_become_notes_under_headings(double: ProviderDouble) -> None:
    double.answer = lambda _: (
        200,
        notes(
            files_read=["/srv/app.toml: port"],
            key_observations=["port = 80", "port = 80", "  "],
            unresolved_questions=["Which port\nis meant?"],
        ),
    )
    text, usage = write_summary(MODEL, HISTORY, "Files read:\n- /etc/hosts", 200, "")
    assert text.splitlines() == [
        "Files read:",
        "- /srv/app.toml: port",
        "Key observations:",
        "- port = 80",
        "Unresolved questions:",
        "- Which port is meant?",
    ]
    assert usage == Usage(uncached=1, output=1)
    (request,) = double.requests
    (prompt,) = double.prompts
    for part in ("verbatim", "/srv/app.toml", "/etc/hosts", "identifiers and error strings", "200"):
        assert part in prompt
    schema = request["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]) == set(SLOTS)
    assert "verbatim" in schema["properties"]["key_observations"]["description"]


def test_guideline_is_in_the_prompt(double: ProviderDouble) -> None:
    double.answer = lambda _: (200, chat_reply("State: open.\nFacts: port = 80"))
    text, _ = write_summary(MODEL, HISTORY, "", 200, "Keep ports.")
    assert text == "State: open.\nFacts: port = 80"
    assert "Keep ports." in double.prompts[0]
    assert "response_format" not in double.requests[0]


def test_oldest_notes_are_dropped_above_limit(double: ProviderDouble) -> None:
    double.answer = lambda _: (
        200,
        notes(
            key_observations=[f"value_{n} is {n}" for n in range(100)], decisions=["Use value_99."]
        ),
    )
    text, _ = write_summary(MODEL, HISTORY, "", 120, "")
    assert 80 < counter_for(MODEL).text(text) <= 120
    assert "value_99 is 99" in text
    assert "value_0 is 0" not in text
    assert text.endswith("Decisions:\n- Use value_99.")
    double.answer = lambda _: (200, notes(decisions=["one decision " * 300]))
    text, _ = write_summary(MODEL, HISTORY, "", 120, "")
    assert 80 < counter_for(MODEL).text(text) <= 120


def test_long_history_is_summarized_in_consecutive_pieces(double: ProviderDouble) -> None:
    double.answer = lambda _: (200, notes(decisions=[f"Piece {len(double.requests)} read."]))
    history = "".join(f"[{n}] user:\nrow_{n} value\n" for n in range(6_000))
    text, usage = write_summary(MODEL, history, "Decisions:\n- Begin.", 300, "")
    count = len(double.requests)
    assert count > 1
    assert text == f"Decisions:\n- Piece {count} read."
    assert usage == Usage(uncached=count, output=count, calls=count)
    prompts = double.prompts
    assert "row_0 value" in prompts[0]
    assert "- Begin." in prompts[0]
    assert "row_5999 value" in prompts[-1]
    assert all(f"Piece {n} read." in later for n, later in enumerate(prompts[1:], 1))


@pytest.mark.parametrize(("status", "guideline"), [(500, ""), (401, "Keep ports.")])
def test_failing_model_raises_one_error(
    double: ProviderDouble, status: int, guideline: str
) -> None:
    double.answer = lambda _: failure(status)
    with pytest.raises(SummaryFailed, match="could not summarise") as raised:
        write_summary(MODEL, HISTORY, "", 100, guideline)
    assert "app.toml" not in raised.value.message
    assert len(double.requests) == (2 if status == 500 else 1)


EMPTY = json.dumps({name: [] for name in SLOTS})


@pytest.mark.parametrize("reply", ["not json", "", '{"files_read": []}', EMPTY])
def test_unusable_reply_raises_error_with_usage(double: ProviderDouble, reply: str) -> None:
    double.answer = lambda _: (200, chat_reply(reply))
    with pytest.raises(SummaryFailed) as raised:
        write_summary(MODEL, HISTORY, "", 100, "")
    assert raised.value.usage.prompt == len(double.requests) >= 1
