"""smolagents itself, with the example's agents: results leave their calls and come back."""

import json
from collections.abc import Callable

import pytest
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.scripted import Call, Say, Script, Step, has_tools
from tests.support.scripted_model import Asked, Reply, call, chat, chat_events, stream, whole

SAID = "That is all I know."


def as_call(step: Step) -> Step:
    """How an agent that calls tools ends a turn: with one more call."""
    return Call("final_answer", {"answer": step.text}) if isinstance(step, Say) else step


def as_code(step: Step) -> Step:
    """The same as code: a result is seen if it is printed."""
    if isinstance(step, Say):
        return Say(f"That is all.\n<code>\nfinal_answer({step.text!r})\n</code>")
    called = f"{step.name}({step.arguments['host']!r})"
    return Say(f"Thought: the next step.\n<code>\nprint({called})\n</code>")


def has_no_tools(body: Json) -> bool:
    return not has_tools(body)


@pytest.mark.parametrize(
    ("kind", "write", "is_agent"),
    [("tools", as_call, has_tools), ("code", as_code, has_no_tools)],
)
def test_the_example(
    loopback: Loopback,
    kind: str,
    write: Callable[[Step], Step],
    is_agent: Callable[[Json], bool],
) -> None:
    script = Script(loopback.model, [write(step) for step in hosts.steps()], is_agent)
    lines = printed("example.py", loopback.environment(), kind)
    assert lines == list(hosts.ANSWERS)
    script.steps = hosts.steps()
    loopback.check(script)


def test_plans_images_errors_and_running_out_of_steps(loopback: Loopback) -> None:
    model = Sides()
    loopback.model.answer = model.answer
    lines = printed("paths.py", loopback.environment())
    assert lines[-3:] == [SAID, "True", "ToolCallingAgent True"]

    steps = [body for body in model.asked if has_tools(body)]
    first_plan, *plans, end = [body for body in model.asked if has_no_tools(body)]
    assert (len(steps), len(plans)) == (8, 2)
    marks = [f"the next is host_{number}_X" for number in range(1, 15)]
    for body in [*steps, *plans, end]:
        found = [mark for mark in marks if mark in json.dumps(body)]
        assert len(found) < len(marks) / 2
        assert "How fast are the hosts?" in json.dumps(body)
        roles = [message["role"] for message in body["messages"]]
        assert roles[0] == "system" and "system" not in roles[1:]
    assert not set(marks) & {mark for mark in marks if mark in json.dumps(first_plan)}
    # smolagents shows the task's image again in every step: most leave.
    assert 1 <= json.dumps(steps[-1]).count("data:image") <= 3
    assert "No such host" in json.dumps(steps[4])
    # The two of a step come and go together.
    for body in steps:
        assert [mark in json.dumps(body) for mark in marks[::2]] == [
            mark in json.dumps(body) for mark in marks[1::2]
        ]
    (session,) = loopback.sessions()
    assert session["session"].startswith("auto-")


class Sides:
    """A model that looks at two hosts at a time, at a wrong one in between, and never ends."""

    def __init__(self) -> None:
        self.asked: list[Json] = []
        self.steps = 0

    def answer(self, asked: Asked) -> Reply:
        body = asked.json
        self.asked.append(body)
        if has_no_tools(body):
            text = SAID
            return stream(chat_events(text)) if body.get("stream") else whole(chat(text))
        self.steps += 1
        number = 2 * (self.steps - 1 - (self.steps > 4))
        hosts_of = [f"host_{number}_X", f"host_{number + 1}_X"]
        if self.steps == 4:
            hosts_of = ["No such host"]
        calls = [call(f"call_{self.steps}{host}", "look", host=host) for host in hosts_of]
        return stream(chat_events("", calls))


def printed(name: str, environment: dict[str, str], *arguments: str) -> list[str]:
    """The lines that a script of this folder prints."""
    command = [python_of("smolagents"), ADAPTERS / "smolagents" / name, *arguments]
    done = run(command, environment)
    assert UNCHANGED not in done.stderr
    return done.stdout.splitlines()
