"""mini-swe-agent as a command and from code: results are omitted from its calls and restored."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.mini_swe_agent.findings import write_findings
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.scripted import Call, Json, Say, Script, Step

FOLDER = ADAPTERS / "mini_swe_agent"
END = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
NEW_TASK = "And the next three? Restart those that are slow."
SHORT = "agent.instance_template={{task}}"
"""Replaces the long instructions, because the first task counts against the budget once a second
one follows."""


def command_of(step: Step) -> str:
    """Return a step of the hosts' task as a bash command."""
    if isinstance(step, Say):
        return END
    host = step.arguments["host"]
    return f"cat {host}.txt" if step.name == "look" else f"touch {host}"


def as_call(step: Step) -> Step:
    """Return a step for model classes that call a tool."""
    return Call("bash", {"command": command_of(step)})


def as_text(step: Step) -> Step:
    """Return a step for model classes that read the command from the text."""
    return Say(f"THOUGHT: Go on.\n\n```mswea_bash_command\n{command_of(step)}\n```")


def check(script: Script, steps: list[Step]) -> None:
    """Run `hosts.check` on a script whose steps are bash commands."""
    hosts.check(replace(script, steps=steps))


def variables(folder: Path) -> dict[str, str]:
    """Return variables for mini-swe-agent with its own configuration folder."""
    return {
        "MSWEA_GLOBAL_CONFIG_DIR": str(folder / "config"),
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


@pytest.mark.parametrize(
    ("model_class", "config", "tell"),
    [
        ("litellm", "mini.yaml", as_call),
        ("litellm_response", "mini.yaml", as_call),
        ("litellm_textbased", "mini_textbased.yaml", as_text),
    ],
)
def test_command_renders_two_tasks(
    model_class: str,
    config: str,
    tell: Callable[[Step], Step],
    loopback: Loopback,
    tmp_path: Path,
) -> None:
    """One run has two tasks. The second task is typed after the first is finished."""
    write_findings(tmp_path)
    script = Script(loopback.model, [tell(step) for step in hosts.steps()], lambda body: True)
    mini = python_of("mini_swe_agent").parent / "mini"
    files = ["-c", config, "-c", str(FOLDER / "contextrender.yaml"), "-c", SHORT]
    options = ["-m", "openai/m", "--model-class", model_class, "-y", "-o", "run.traj.json"]
    task = ["-t", "Read the first six hosts' files."]
    command = [mini, *files, *options, *task]
    environment_variables = loopback.environment(**variables(tmp_path))
    process = run(command, environment_variables, tmp_path, stdin=f"{NEW_TASK}\n\n")
    assert UNCHANGED not in process.stderr
    check(script, hosts.steps())
    trajectory = json.loads((tmp_path / "run.traj.json").read_text())
    assert trajectory["info"]["exit_status"] == "Submitted"
    assert_whole(trajectory["messages"])
    assert NEW_TASK in json.dumps(script.requests[-1])
    (session,) = loopback.sessions()
    assert session["session"] == trajectory["info"]["contextrender"]["session"]


def test_example_omits_and_restores_results(loopback: Loopback, tmp_path: Path) -> None:
    """The agent is created from code and has one task."""
    steps = [step for step in hosts.steps() if step != Say(hosts.ANSWERS[0])]
    script = Script(loopback.model, [as_text(step) for step in steps], lambda body: True)
    example = [python_of("mini_swe_agent"), FOLDER / "example.py"]
    environment_variables = loopback.environment(MODEL="openai/m", **variables(tmp_path))
    process = run(example, environment_variables, tmp_path)
    assert UNCHANGED not in process.stderr
    assert process.stdout.splitlines()[-1] == f"Submitted after {2 * len(steps) + 2} messages"
    check(script, steps)
    (session,) = loopback.sessions()
    assert session["session"] == "mini-swe-agent-hosts"


def assert_whole(messages: list[Json]) -> None:
    """Check that the agent's history has every finding, complete and in order."""
    findings = [
        json.dumps({k: v for k, v in message.items() if k != "extra"})
        for message in messages
        if "extra" in message and "raw_output" in message["extra"]
    ]
    texts_with_mark = [text for text in findings if any(mark in text for mark in hosts.MARKS)]
    assert len(texts_with_mark) == len(hosts.MARKS)
    assert all(mark in text for mark, text in zip(hosts.MARKS, texts_with_mark, strict=True))
