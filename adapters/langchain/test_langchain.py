"""LangChain itself, with the example's agent: results leave its calls and come back."""

from adapters.conftest import Loopback
from adapters.testing import hosts


def test_the_example(loopback: Loopback) -> None:
    script = hosts.run_example("langchain", loopback.model, loopback.environment())
    loopback.check(script)
