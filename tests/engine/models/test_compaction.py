"""Result summaries through byLLM and LiteLLM, with a double of an OpenAI server."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.engine.models.providers import result_writer
from contextrender_bridge.engine.text.tokens import counter_for

from tests.support.provider_double import (
    ProviderDouble,
    chat_reply,
    failure,
    provider_of_process,
    reply_late,
)

pytestmark = pytest.mark.slow

MODEL = "openai/scripted-chat"
RESULT = 'timeout_ms = 4500\npath = "/srv/app/Main.py"\n' + "filler line\n" * 200


def compact_result(*arguments: Any, **limits: Any) -> str:
    text: str = result_writer().compact_result(*arguments, **limits)
    return text


@pytest.fixture
def double() -> Iterator[ProviderDouble]:
    with provider_of_process(lambda _: (200, compaction())) as served:
        yield served


def compaction(notes: str = "A configuration.", *quotes: str) -> dict[str, Any]:
    return chat_reply({"notes": notes, "quotes": list(quotes)})


def test_summary_has_notes_and_verbatim_quotes(double: ProviderDouble) -> None:
    double.answer = lambda _: (200, compaction("The timeout.", "timeout_ms = 4500", "retries = 7"))
    assert compact_result(MODEL, RESULT, "Which timeout?", 200) == (
        "The timeout.\ntimeout_ms = 4500"
    )
    (request,) = double.requests
    assert request["model"] == "scripted-chat"
    assert "Which timeout?" in double.prompts[0]
    assert "/srv/app/Main.py" in double.prompts[0]
    assert "exactly as written" in double.prompts[0]
    assert request["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("line", ["A fact of ten words or so, number {}.\n", "unbroken{}"])
def test_reply_above_the_limit_is_cut(double: ProviderDouble, line: str) -> None:
    notes = "".join(line.format(number) for number in range(500))
    double.answer = lambda _: (200, compaction(notes))
    text = compact_result(MODEL, RESULT, "", 120)
    assert 60 < counter_for(MODEL).text(text) <= 120
    assert notes.startswith(text)


def test_huge_result_is_summarized_in_pieces(double: ProviderDouble) -> None:
    double.answer = lambda _: (200, compaction(f"Part {len(double.requests)}."))
    text = compact_result(MODEL, "".join(f"row {n} value\n" for n in range(6_000)), "q", 300)
    count = len(double.requests)
    assert 1 < count <= 6
    assert text.splitlines() == [f"Part {n}." for n in range(1, count + 1)]
    assert "row 0 value" in double.prompts[0]
    assert "row 5999 value" in double.prompts[-1]


@pytest.mark.parametrize("status", [500, 401, 404, 429, 400])
def test_failing_model_raises_one_error(
    double: ProviderDouble, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    double.answer = lambda _: failure(status)
    with pytest.raises(ContextRenderError, match="could not compact") as raised:
        compact_result(MODEL, RESULT, "q", 100)
    assert len(double.requests) == (2 if status == 500 else 1)
    assert "timeout_ms" not in str(raised.value)
    output = capfd.readouterr()
    assert "scripted failure" not in output.out + output.err


@pytest.mark.parametrize("reply", ["not json", "", '{"notes": "", "quotes": []}', '{"other": 1}'])
def test_unusable_reply_raises_error(double: ProviderDouble, reply: str) -> None:
    double.answer = lambda _: (200, chat_reply(reply))
    with pytest.raises(ContextRenderError):
        compact_result(MODEL, RESULT, "q", 100)
    assert len(double.requests) <= 4


def test_hanging_model_ends_at_its_deadline(double: ProviderDouble) -> None:
    released = threading.Event()
    double.answer = lambda _: reply_late(released, compaction())  # a valid reply, but too late
    with pytest.raises(ContextRenderError):
        compact_result(MODEL, RESULT, "q", 100, timeout=0.3, deadline=1.0)
    released.set()
