"""LangChain.js with the example's agent: results are omitted from its calls and restored."""

from pathlib import Path

from adapters.conftest import Loopback
from adapters.testing.javascript import check_types, project, run_example


def test_example_omits_and_restores_results(
    tmp_path: Path, client_package: Path, loopback: Loopback
) -> None:
    place = project(tmp_path / "project", "langchain_js", client_package)
    check_types(place)
    script, _ = run_example(place, loopback.model, loopback.environment())
    loopback.check(script)
    assert len(loopback.client.inspect_session("langchain-js-hosts")["branches"]) == 1
