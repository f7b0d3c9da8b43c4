"""The OpenAI Agents SDK itself, with the example's agent: results leave its calls and come back."""

from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.testing.javascript import check_types, project, run_example
from adapters.testing.scripted import Call


@pytest.mark.parametrize("api", ["responses", "chat_completions"])
def test_the_example(tmp_path: Path, client_package: Path, loopback: Loopback, api: str) -> None:
    place = project(tmp_path / "project", "openai_agents_js", client_package)
    variables = loopback.environment(API=api)
    script, told = run_example(place, loopback.model, variables)
    loopback.check(script)
    results = sum(isinstance(step, Call) for step in script.steps)
    assert f"The SDK's session keeps {results} results." in told


def test_the_types(tmp_path: Path, client_package: Path) -> None:
    check_types(project(tmp_path / "project", "openai_agents_js", client_package))
