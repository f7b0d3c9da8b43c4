"""The packages that an adapter's README installs in an empty folder or environment are enough for
its example.

The install commands name no version, so this uses the newest ones; each adapter's own test has
pinned versions.
"""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.smolagents.test_smolagents import as_call
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import ADAPTERS
from adapters.testing.scripted import Script

OTHERS = ("langchain_js", "openai_agents_js", "mastra")


@pytest.mark.parametrize(
    "name", ["ai_sdk", *(pytest.param(other, marks=pytest.mark.slow) for other in OTHERS)]
)
def test_javascript_example_runs_with_documented_packages(
    tmp_path: Path, client_package: Path, loopback: Loopback, name: str
) -> None:
    """The system's Node, which may be the oldest supported version, runs the example."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    text = (ADAPTERS / name / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ (npm install [^#\n]*)", text, re.M)
    shutil.copy(client_package, tmp_path / "contextrender-client-0.1.0.tgz")
    shutil.copy(ADAPTERS / name / "example.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    variables = loopback.environment()
    run(shlex.split(line), variables, tmp_path)
    Script(loopback.model, hosts.steps())
    process = run(["npx", "--no-install", "tsx", "example.ts"], variables, tmp_path)
    assert [line for line in process.stdout.splitlines() if line in hosts.ANSWERS] == list(
        hosts.ANSWERS
    )
    assert "history sent unchanged" not in process.stderr


WRITE = {"smolagents": as_call}
"""A function that converts the model's steps for a runtime that ends a turn with a call."""
PYTHON = ("google_adk", "openai_agents", "pydantic_ai", "smolagents")


@pytest.mark.parametrize(
    "name", ["langchain", *(pytest.param(one, marks=pytest.mark.slow) for one in PYTHON)]
)
def test_python_example_runs_with_documented_packages(
    tmp_path: Path, loopback: Loopback, name: str
) -> None:
    text = (ADAPTERS / name / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ pip install ([^#\n]*)", text, re.M)
    home = tmp_path / "environment"
    uv, variables = [sys.executable, "-m", "uv"], loopback.environment()
    variables.pop("PYTHONPATH", None)  # the install command provides the bridge
    run([*uv, "venv", "--quiet", "--python", sys.executable, str(home)], variables, tmp_path)
    packages = shlex.split(line.replace("./py_bridge", str(ADAPTERS.parent / "py_bridge")))
    python = home / "bin" / "python"
    run([*uv, "pip", "install", "--quiet", "--python", str(python), *packages], variables, tmp_path)
    shutil.copy(ADAPTERS / name / "example.py", tmp_path)
    steps = hosts.steps()
    Script(loopback.model, [WRITE[name](step) for step in steps] if name in WRITE else steps)
    process = run([python, "example.py"], variables, tmp_path)
    assert [line for line in process.stdout.splitlines() if line in hosts.ANSWERS] == list(
        hosts.ANSWERS
    )
    assert "history sent unchanged" not in process.stderr
