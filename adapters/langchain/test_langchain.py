"""LangChain with the example's agent: results are omitted from its calls and restored."""

from adapters.conftest import Loopback
from adapters.testing import hosts


def test_example_omits_and_restores_results(loopback: Loopback) -> None:
    script = hosts.run_example("langchain", loopback.model, loopback.environment())
    loopback.check(script)
