"""The TypeScript client: its types, and its tests in each runtime with the real service."""

import shutil
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.testing.commands import run
from adapters.testing.installs import environment
from adapters.testing.javascript import built_client, command

TESTS = {
    "node": ["--test"],
    "system's node": ["--test"],
    "bun": ["test", "./test"],
    "deno": [
        "test",
        "--allow-all",
        "--no-check",
        "--no-lock",
        "--node-modules-dir=manual",
        "test/",
    ],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_client(tmp_path_factory.mktemp("client"))


def test_client_types_are_valid(built: Path) -> None:
    run(["npm", "run", "check"], environment(), built)


@pytest.mark.parametrize("runtime", TESTS)
def test_client_tests_pass(built: Path, loopback: Loopback, runtime: str) -> None:
    program = _program(runtime)
    process = run([program, *TESTS[runtime]], loopback.environment(), built)
    output = process.stdout + process.stderr
    assert "a real service omits, recalls and explains results" in output
    assert not any(sign in output for sign in ("SKIP", "(skip)", "ignored (", "1 ignored")), output


def _program(runtime: str) -> str:
    if runtime != "system's node":
        return command(runtime)[0]
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node is not installed")
    return program
