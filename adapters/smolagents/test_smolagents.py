"""smolagents with the example's agents: results are omitted from their calls and restored."""

import json
from collections.abc import Callable

import pytest
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.scripted import Call, Say, Script, Step, has_tools
from tests.support.scripted_model import (
    ModelRequest,
    Reply,
    call,
    chat,
    chat_events,
    json_reply,
    stream,
)

FINAL_TEXT = "That is all I know."


def as_call(step: Step) -> Step:
    """Return a step for an agent that calls tools. Such an agent ends a turn with a call."""
    return Call("final_answer", {"answer": step.text}) if isinstance(step, Say) else step


def as_code(step: Step) -> Step:
    """Return a step for an agent that writes code. Its code prints each result."""
    if isinstance(step, Say):
        return Say(f"That is all.\n<code>\nfinal_answer({step.text!r})\n</code>")
    code = f"{step.name}({step.arguments['host']!r})"
    return Say(f"Thought: the next step.\n<code>\nprint({code})\n</code>")


def has_no_tools(body: Json) -> bool:
    return not has_tools(body)


@pytest.mark.parametrize(
    ("kind", "write", "is_agent"),
    [("tools", as_call, has_tools), ("code", as_code, has_no_tools)],
)
def test_example_omits_and_restores_results(
    loopback: Loopback,
    kind: str,
    write: Callable[[Step], Step],
    is_agent: Callable[[Json], bool],
) -> None:
    script = Script(loopback.model, [write(step) for step in hosts.steps()], is_agent)
    lines = run_script("example.py", loopback.environment(), kind)
    assert lines == list(hosts.ANSWERS)
    script.steps = hosts.steps()
    loopback.check(script)


def test_plans_images_errors_and_step_limit(loopback: Loopback) -> None:
    model = TwoCallModel()
    loopback.model.answer = model.answer
    lines = run_script("paths.py", loopback.environment())
    assert lines[-3:] == [FINAL_TEXT, "True", "ToolCallingAgent True"]

    steps = [body for body in model.requests if has_tools(body)]
    first_plan, *plans, end = [body for body in model.requests if has_no_tools(body)]
    assert (len(steps), len(plans)) == (8, 2)
    marks = [f"the next is host_{number}_X" for number in range(1, 15)]
    for body in [*steps, *plans, end]:
        shown_marks = [mark for mark in marks if mark in json.dumps(body)]
        assert len(shown_marks) < len(marks) / 2
        assert "How fast are the hosts?" in json.dumps(body)
        roles = [message["role"] for message in body["messages"]]
        assert roles[0] == "system" and "system" not in roles[1:]
    assert not set(marks) & {mark for mark in marks if mark in json.dumps(first_plan)}
    # smolagents repeats the task's image in every step; most are omitted.
    assert 1 <= json.dumps(steps[-1]).count("data:image") <= 3
    assert "No such host" in json.dumps(steps[4])
    # The two results of a step are shown or omitted together.
    for body in steps:
        assert [mark in json.dumps(body) for mark in marks[::2]] == [
            mark in json.dumps(body) for mark in marks[1::2]
        ]
    (session,) = loopback.sessions()
    assert session["session"].startswith("auto-")


class TwoCallModel:
    """A model that looks at two hosts per step, once at an unknown host, and never ends."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self.steps = 0

    def answer(self, request: ModelRequest) -> Reply:
        body = request.json
        self.requests.append(body)
        if has_no_tools(body):
            text = FINAL_TEXT
            return stream(chat_events(text)) if body.get("stream") else json_reply(chat(text))
        self.steps += 1
        number = 2 * (self.steps - 1 - (self.steps > 4))
        hosts_of = [f"host_{number}_X", f"host_{number + 1}_X"]
        if self.steps == 4:
            hosts_of = ["No such host"]
        calls = [call(f"call_{self.steps}{host}", "look", host=host) for host in hosts_of]
        return stream(chat_events("", calls))


def run_script(name: str, environment: dict[str, str], *arguments: str) -> list[str]:
    """Run a script of this folder and return the lines it prints."""
    command = [python_of("smolagents"), ADAPTERS / "smolagents" / name, *arguments]
    process = run(command, environment)
    assert UNCHANGED not in process.stderr
    return process.stdout.splitlines()
