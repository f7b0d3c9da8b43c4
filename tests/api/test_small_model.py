"""A real small model through `compact`, from the messages of a run to the prompt it leaves."""

from collections.abc import Iterator

import pytest

from tests.api.checks import orphans, tokens_inside
from tests.api.conftest import User
from tests.api.transcripts import assistant, call, result, user
from tests.support.small_model import NotInstalled, install, served

RUN = [
    user("Find out why order ORD-1000 is late and who should be told."),
    assistant("I look it up.", call("a", "get_order", '{"order_id": "ORD-1000"}')),
    result("a", "Order ORD-1000 is held at hub_7: customs form C-88 is missing. " * 6),
    assistant("I ask for the contact.", call("b", "get_contact", '{"hub": "hub_7"}')),
    result("b", "The contact of hub_7 is clerk_0@example.com, phone 555-0199. " * 6),
]
BUDGET = 200
HOUR = 3600.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("small-model")
    try:
        install(folder)
    except NotInstalled as reason:
        pytest.skip(f"SmolLM2 cannot be installed: {reason}")
    with served(folder) as url:
        yield url


@pytest.mark.slow
def test_a_real_model_summarises_a_run(
    alice: User, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_MODEL", "openai/smollm2")
    monkeypatch.setenv("OPENAI_API_BASE", address)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    # The model is real and this machine may be busy: its pace is not what is tested.
    defaults = "engine.models.summary_writer.summarise.__defaults__"
    monkeypatch.setattr(defaults, ("", HOUR, HOUR))
    fields = {"session": "s", "messages": RUN, "budget": BUDGET, "policy": "compact"}
    reply = alice.api.report("render", **fields)
    assert reply["warnings"] == []
    (summary,) = reply["replaced"]
    assert summary["kind"] == "summary"
    assert len(summary["text"].splitlines()) > 1
    assert reply["messages"][-1] == RUN[-1] | {"content": summary["text"]}
    assert orphans(reply["messages"]) == []
    assert tokens_inside(reply["messages"]) == reply["tokens"]["after"] <= BUDGET
    assert reply["usage"]["model_tokens_in"] > reply["tokens"]["before"]
    assert reply["usage"]["model_tokens_out"] > 0
    again = alice.api.report("render", **fields)
    assert again["messages"] == reply["messages"]
    assert again["usage"]["model_tokens_in"] == 0
    assert alice.graph().counts["HistorySummary"] == 1
