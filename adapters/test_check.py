"""The first-run check of each adapter whose runtime can be had: a call is shortened on its way."""

import os
import re
import sys
from pathlib import Path

import pytest
from contextrender_bridge.adapters.check import RUNTIMES
from contextrender_bridge.adapters.trials import TRIALS

from adapters.conftest import Loopback
from adapters.opencode.test_opencode import install_plugin
from adapters.testing.commands import run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.javascript import command, project

PYTHON = [name for name in TRIALS if (ADAPTERS / name / "requirements.txt").is_file()]
JAVASCRIPT = [name for name, runtime in RUNTIMES.items() if runtime.way == "javascript"]
PROXIED = [name for name, runtime in RUNTIMES.items() if runtime.way == "proxy"]
CHECK = ("-m", "contextrender_bridge.adapters.check")


def check_told(told: str, way: str) -> None:
    """The call was shortened that way."""
    line = rf"ok    a call: through the {way} [1-7] of 8 results were sent"
    assert re.search(line, told), told


@pytest.mark.parametrize("name", PYTHON)
def test_a_call_goes_through_the_adapter(loopback: Loopback, name: str) -> None:
    command = [python_of(name), *CHECK, name]
    told = run(command, loopback.environment(LITELLM_LOCAL_MODEL_COST_MAP="True")).stdout
    check_told(told, "adapter")
    assert loopback.sessions() == []


@pytest.mark.parametrize("name", JAVASCRIPT)
def test_a_call_goes_through_the_package(
    loopback: Loopback, tmp_path: Path, client_package: Path, name: str
) -> None:
    if name == "opencode":
        place = tmp_path
        install_plugin(place, client_package)
    else:
        place = project(tmp_path / "project", name, client_package)
    node = Path(command("node")[0])
    path = f"{node.parent}{os.pathsep}{os.environ['PATH']}"
    told = run([sys.executable, *CHECK, name], loopback.environment(PATH=path), place).stdout
    check_told(told, "adapter")
    assert loopback.sessions() == []


@pytest.mark.parametrize("name", PROXIED)
def test_a_call_goes_through_the_proxy(loopback: Loopback, tmp_path: Path, name: str) -> None:
    """The program that comes before the proxy need not be there: that is told by itself."""
    (tmp_path / RUNTIMES[name].needs).touch(mode=0o755)
    own = loopback.environment(PATH=str(tmp_path))
    words = [sys.executable, *CHECK, name, "--proxy", loopback.proxy]
    check_told(run(words, own, tmp_path).stdout, "proxy")
    assert loopback.sessions() == [] and loopback.model.asked == []
