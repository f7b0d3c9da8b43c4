"""bench/live: the harness on its synthetic task, and what it says of agents that are not there."""

import csv
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge import embedded
from contextrender_bridge.wire import Json

from evaluation.cases import Case

LIVE = Path(__file__).resolve().parent.parent.parent / "bench" / "live"


def live(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(LIVE), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def modules() -> Iterator[Any]:
    """Imports the harness's own modules by name."""
    sys.path.insert(0, str(LIVE))
    yield importlib.import_module
    sys.path.remove(str(LIVE))


def test_the_synthetic_task_fills_the_papers_columns(tmp_path: Path) -> None:
    out, sheet = tmp_path / "out.json", tmp_path / "out.csv"
    done = live("synthetic", "--policy", "prune", "--budget", 900, "--json", out, "--csv", sheet)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Synthetic task (made up, to test the harness), model scripted")
    whole = json.loads(out.read_text())
    assert (whole["agent"], whole["model"], whole["metric"]) == ("synthetic", "scripted", "F1")
    full, prune = whole["rows"]
    assert (full["policy"], full["score"], full["normalised"]) == ("full", 1.0, 1.0)
    assert prune["policy"] == "prune"
    assert 0 < prune["score"] < 1
    assert 0 < prune["normalised"] < 1
    assert prune["tasks"] == prune["over_budget"] == 2
    assert prune["calls"] == full["calls"] == 26
    assert prune["model_calls_failed"] == 0
    sent = [task["sent"] for task in whole["tasks"] if task["policy"] == "full"]
    prompt, cached = (sum(each[name] for each in sent) for name in ("prompt", "cached"))
    rho, output = cached / prompt, sum(each["output"] for each in sent)
    assert 0 < rho < 1
    price = 2 * (1 - rho) + 0.5 * rho
    assert full["cost"] == pytest.approx((price * prompt + 8 * output) / 1e6)
    first, *rows = csv.reader(sheet.read_text().splitlines())
    assert "F1" in first
    assert [row[0] for row in rows] == ["full", "prune"]


@pytest.mark.parametrize(
    ("agent", "lacks"),
    [("appworld-react", "install appworld"), ("acon-qa8", "check out github.com/microsoft/acon")],
)
def test_what_is_missing_is_said_in_one_sentence(agent: str, lacks: str) -> None:
    done = live(agent, "--model", "gpt-4.1")
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert lacks in sentence
    assert done.stdout == ""


def test_a_model_must_be_named_and_within_reach(
    modules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    models = modules("models")
    assert models.missing_keys("gpt-4.1") == ["OPENAI_API_KEY"]
    monkeypatch.setenv("OPENAI_API_KEY", "set")
    assert models.missing_keys("gpt-4.1") == []


def test_demonstrations_are_no_history_and_observations_are_results(
    modules: Any, tmp_path: Path
) -> None:
    asked: list[Json] = []

    def complete(body: Json) -> Json:
        asked.append(body)
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        return {"choices": [{"message": {"role": "assistant", "content": "go"}}], "usage": usage}

    messages = [
        {"role": "user", "content": "An example: list the files."},
        {"role": "assistant", "content": "```python\nls()\n```"},
        {"role": "user", "content": "Output:\n```\nexample_file\n```"},
        {"role": "user", "content": "Now your task: find the owner."},
    ]
    gateway = modules("gateway")
    with embedded(tmp_path) as service, service.client() as client:
        seat = gateway.Seat(client, complete, Case("prune", 400), "one")
        for step in range(12):
            status, _ = seat.answer({"model": "any", "messages": list(messages)})
            assert status == 200
            text = f"Output:\n```\n{'row_of_values ' * 20}step {step}\n```"
            messages += [
                {"role": "assistant", "content": f"```python\nlook({step})\n```"},
                {"role": "user", "content": text},
            ]
    last = asked[-1]["messages"]
    assert last[:4] == messages[:4]
    assert last[-1]["content"].endswith("step 10\n```")
    assert len(last) < len(messages) - 2
    assert (seat.meter.calls, seat.meter.sent.prompt, seat.meter.failures) == (12, 120, [])
    assert seat.meter.longest > 400


def test_a_failing_model_is_a_failed_call(modules: Any, tmp_path: Path) -> None:
    def complete(_: Json) -> Json:
        raise TimeoutError

    gateway = modules("gateway")
    with embedded(tmp_path) as service, service.client() as client:
        seat = gateway.Seat(client, complete, Case("prune", 400), "one")
        status, reply = seat.answer({"messages": [{"role": "user", "content": "Hi"}]})
    assert (status, reply["error"]["message"]) == (502, "TimeoutError")
    assert seat.meter.failures == ["TimeoutError"]


def test_an_agent_that_breaks_off_is_an_error_with_its_reason(modules: Any) -> None:
    agents = modules("agents")
    agent = agents.AGENTS["synthetic"].at(Path(sys.executable), None, "")
    assert agent.missing() == ""
    assert agent.tasks(1) == ["0"]
    with pytest.raises(agents.AgentFailed, match="refused"):
        agent.run("0", "http://127.0.0.1:9/v1", "any", 5)
    absent = agent.at(Path("/nowhere/python"), None, "")
    assert "--python" in absent.missing()
