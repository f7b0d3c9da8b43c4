"""LangChain itself, with the example's agent: results leave its calls and come back."""

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import python_of


def test_the_example(loopback: Loopback) -> None:
    script = hosts.run_example("langchain", loopback.model, loopback.environment())
    hosts.check(script)
    (session,) = loopback.sessions()
    assert session["session"] == "hosts"
    assert session["turns"] == len(script.steps) - 1


def test_the_first_run_check(loopback: Loopback) -> None:
    command = [python_of("langchain"), "-m", "contextrender_bridge.adapters.check", "langchain"]
    lines = run(command, loopback.environment()).stdout.splitlines()
    assert [line[:5] for line in lines] == ["ok   "] * 4, lines
