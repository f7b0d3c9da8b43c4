"""Meta ARE through the proxy: results are omitted from its calls and restored.

The scenario is one of Meta ARE's. The agent's files are put into its sandbox at its first call;
after the agent has waited, the scenario begins a second turn.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from adapters.conftest import Loopback, proxying
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, python_of
from adapters.testing.scripted import Call, Say, Script, Step
from tests.support.scripted_model import ModelRequest, Reply

pytestmark = pytest.mark.slow

SESSION = "tutorial"
BUDGET = 1000
"""The budget is larger than in other tests, because the agent's texts are always shown."""
WAIT = Call("SystemApp__wait_for_notification", {"timeout": 30})
LONG = json.dumps({"duration": 3600})
"""The scenario's length in simulated seconds. It must not end while the agent waits."""
FORWARDED = {"email_id": "greg_email", "recipients": ["johndoe@example.com"]}
TASK = [
    Call("EmailClientApp__forward_email", FORWARDED),
    Call("AgentUserInterface__send_message_to_user", {"content": "It is sent."}),
]


@pytest.fixture
def proxy(loopback: Loopback) -> Iterator[str]:
    with proxying(loopback.service, f"{loopback.model.url}/v1", BUDGET) as address:
        yield address


def test_scenario_runs_through_proxy(loopback: Loopback, proxy: str, tmp_path: Path) -> None:
    steps = [*hosts.steps()[:-1], *TASK]
    script = Script(loopback.model, [_as_text(_of_scenario(s)) for s in steps], lambda body: True)

    def answer(request: ModelRequest) -> Reply:
        if not script.requests:
            _fill_sandbox(tmp_path)
        return script.answer(request)

    loopback.model.answer = answer
    report = _run(f"{proxy}/s/{SESSION}/v1", tmp_path)
    assert report["score"] == 1.0, report
    hosts.check(replace(script, steps=steps))
    (session,) = loopback.sessions()
    assert session["session"] == SESSION
    hosts.check_turns(session, steps)
    status = httpx.get(f"{proxy}/contextrender/status").json()
    assert not status["fail_open"], status


def _of_scenario(step: Step) -> Call:
    """Return the step as a call of the scenario's tools."""
    if isinstance(step, Say):
        return WAIT
    if step.name == "look":
        return Call("SandboxLocalFileSystem__cat", {"path": f"{step.arguments['host']}.txt"})
    if step.name == "restart":
        return Call("CalendarApp__search_events", {"query": step.arguments["host"]})
    return step


def _as_text(step: Call) -> Say:
    """Return a call as text in this runtime's format."""
    action = json.dumps({"action": step.name, "action_input": step.arguments})
    return Say(f"Thought: I go on.\n\nAction:\n{action}<end_action>\n")


def _fill_sandbox(folder: Path) -> None:
    (sandbox,) = folder.rglob("are_simulation_fs_sandbox_*")
    for number in range(len(hosts.MARKS)):
        (sandbox / f"host_{number}_X.txt").write_text(hosts.finding(number))


def _run(endpoint: str, folder: Path) -> dict[str, object]:
    """Run the scenario and return its score from the output. The exit status is always 0."""
    are_run = str(python_of("meta_are").with_name("are-run"))
    command = [are_run, "-s", "scenario_tutorial", "-a", "default", "-e", "-w", "1"]
    command += ["--scenario_kwargs", LONG]
    model = ["--provider", "local", "--model", "openai/m", "--endpoint", endpoint]
    variables = environment(OPENAI_API_KEY="sk-none", HF_HUB_OFFLINE="1", TMPDIR=str(folder))
    process = run([*command, *model, "--output_dir", folder / "out"], variables, folder)
    output = folder / "out" / "output.jsonl"
    assert output.is_file(), process.stderr[-2000:]
    (line,) = output.read_text().splitlines()
    report: dict[str, object] = json.loads(line)
    return report
