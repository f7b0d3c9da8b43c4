"""The OpenAI Agents SDK (JavaScript) with the example's agent: results are omitted and restored."""

from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.testing.javascript import check_types, project, run_example
from adapters.testing.scripted import Call


@pytest.mark.parametrize("api", ["responses", "chat_completions"])
def test_example_omits_and_restores_results(
    tmp_path: Path, client_package: Path, loopback: Loopback, api: str
) -> None:
    place = project(tmp_path / "project", "openai_agents_js", client_package)
    variables = loopback.environment(API=api)
    script, output = run_example(place, loopback.model, variables)
    loopback.check(script)
    results = sum(isinstance(step, Call) for step in script.steps)
    assert f"The SDK's session keeps {results} results." in output


def test_example_types_are_valid(tmp_path: Path, client_package: Path) -> None:
    check_types(project(tmp_path / "project", "openai_agents_js", client_package))
