"""The Vercel AI SDK with the example's agent: results are omitted from its calls and restored."""

from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.testing.javascript import check_types, project, run_example


@pytest.mark.parametrize(
    ("way", "runtime"),
    [("step", "node"), ("middleware", "node"), ("step", "bun"), ("middleware", "deno")],
)
def test_example_omits_and_restores_results(
    tmp_path: Path, client_package: Path, loopback: Loopback, way: str, runtime: str
) -> None:
    place = project(tmp_path / "project", "ai_sdk", client_package)
    script, _ = run_example(place, loopback.model, loopback.environment(AS=way), runtime)
    loopback.check(script)
    assert len(loopback.client.inspect_session("ai-sdk-hosts")["branches"]) == 1


def test_example_types_are_valid(tmp_path: Path, client_package: Path) -> None:
    check_types(project(tmp_path / "project", "ai_sdk", client_package))
