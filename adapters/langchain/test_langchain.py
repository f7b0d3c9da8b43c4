"""LangChain with the example's agent: results are omitted from its calls and restored."""

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import ADAPTERS, environment, python_of


def test_example_omits_and_restores_results(loopback: Loopback) -> None:
    script = hosts.run_example("langchain", loopback.model, loopback.environment())
    loopback.check(script)


def test_first_shown_call_is_signed() -> None:
    run([python_of("langchain"), ADAPTERS / "langchain" / "signatures.py"], environment())
