"""Test that each adapter's example runs with what its README installs in an empty environment.

The newest versions are tested, and the oldest ones that `adapters/README.md` names. Each adapter's
own test has pinned versions.
"""

import inspect
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.appworld import test_appworld
from adapters.claude_code import test_claude_code
from adapters.codex import test_codex
from adapters.conftest import Loopback
from adapters.google_adk import test_google_adk
from adapters.langchain import test_langchain
from adapters.litellm import test_litellm
from adapters.meta_are import test_meta_are
from adapters.mini_swe_agent import test_mini_swe_agent
from adapters.openai_agents import test_openai_agents
from adapters.openclaw import test_openclaw
from adapters.pydantic_ai import test_pydantic_ai
from adapters.smolagents import test_smolagents
from adapters.testing import hosts, installs, javascript
from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS
from adapters.testing.scripted import Script, has_tools

pytestmark = pytest.mark.release

Check = Callable[..., None]

proxy = test_meta_are.proxy
CODEX = {"model": "gpt-5.5", "kind": Script}
TOOLS = {"kind": "tools", "write": test_smolagents.as_call, "is_agent": has_tools}
PYTHON: list[tuple[str, Check, dict[str, object]]] = [
    ("appworld", test_appworld.test_example_omits_and_restores_results, {}),
    ("google_adk", test_google_adk.test_example_omits_and_restores_results, {}),
    ("langchain", test_langchain.test_example_omits_and_restores_results, {}),
    ("litellm", test_litellm.test_gateway_renders_calls, {"config": "config.yaml"}),
    ("litellm", test_litellm.test_gateway_renders_calls, {"config": "guardrail.yaml"}),
    ("meta_are", test_meta_are.test_scenario_runs_through_proxy, {}),
    ("mini_swe_agent", test_mini_swe_agent.test_example_omits_and_restores_results, {}),
    (
        "openai_agents",
        test_openai_agents.test_example_omits_and_restores_results,
        {"api": "responses"},
    ),
    ("pydantic_ai", test_pydantic_ai.test_example_omits_and_restores_results, {"api": "responses"}),
    ("smolagents", test_smolagents.test_example_omits_and_restores_results, TOOLS),
]
"""Python runtimes, each with the adapter's own test and the test's arguments."""
PROGRAMS: list[tuple[str, Check, dict[str, object]]] = [
    (
        "claude_code",
        test_claude_code.test_two_turns_of_a_session_are_rendered,
        {"model": "claude-opus-5-5"},
    ),
    ("codex", test_codex.test_two_turns_of_a_session_are_rendered, CODEX),
    (
        "openclaw",
        test_openclaw.test_two_turns_of_a_session_are_rendered,
        {"api": test_openclaw.CHAT},
    ),
]
"""Programs that npm installs, each with the adapter's own test and the test's arguments."""
JAVASCRIPT = ("ai_sdk", "langchain_js", "mastra", "openai_agents_js")
OLDEST = dict(
    re.findall(
        r"^\| \[[^]]+\]\((\w+)\) (?:\| [^|]+ ){2}\| ([^|]+) \|$",
        (ADAPTERS / "README.md").read_text(encoding="utf-8"),
        re.M,
    )
)
"""The oldest supported packages per adapter, such as `ai 6.0.0, zod 4.0.0`."""


@pytest.fixture(params=["newest", "oldest"])
def age(request: pytest.FixtureRequest) -> str:
    """Return the versions to install."""
    value: str = request.param
    return value


def install_line(name: str, age: str) -> list[str]:
    """Return the words of the README's install command, with versions for the oldest packages."""
    text = (ADAPTERS / name / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ ((?:pip|npm) install [^#\n]*)", text, re.M)
    words = shlex.split(line)
    if age == "oldest":
        if OLDEST[name] == "–":
            pytest.skip("adapters/README.md names no older version")
        for package, version in (entry.split() for entry in OLDEST[name].split(", ")):
            (place,) = (n for n, word in enumerate(words) if _package_of(word) == package)
            words[place] = (
                f"{words[place]}=={version}" if words[0] == "pip" else f"{package}@{version}"
            )
    return words


def _package_of(word: str) -> str:
    """Return the package's name without an extra or a version."""
    return re.sub(r"(?<=.)[@\[].*", "", word)


@pytest.mark.parametrize("name", JAVASCRIPT)
def test_javascript_example_runs_with_documented_packages(
    tmp_path: Path, client_package: Path, loopback: Loopback, name: str, age: str
) -> None:
    shutil.copy(client_package, tmp_path / "contextrender-client-0.1.0.tgz")
    shutil.copy(ADAPTERS / name / "example.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module", "private": true}')
    variables = loopback.environment(**_node(age))
    run(install_line(name, age), variables, tmp_path)
    script = Script(loopback.model, hosts.steps())
    process = run(["npx", "--no-install", "tsx", "example.ts"], variables, tmp_path)
    assert [line for line in process.stdout.splitlines() if line in hosts.ANSWERS] == list(
        hosts.ANSWERS
    )
    assert UNCHANGED not in process.stderr
    loopback.check(script)


@pytest.mark.parametrize(("name", "check", "arguments"), PYTHON)
def test_python_example_runs_with_documented_packages(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    check: Check,
    arguments: dict[str, object],
    age: str,
) -> None:
    place = use_installed(monkeypatch, tmp_path) / name
    variables, uv = installs.environment(), [sys.executable, "-m", "uv"]
    run([*uv, "venv", "--quiet", "--python", sys.executable, place], variables)
    words = [*uv, *install_line(name, age), "--quiet", "--python", place / "bin" / "python"]
    run(words, variables, ADAPTERS.parent, seconds=installs.SECONDS)
    call(check, arguments, request)


@pytest.mark.parametrize(("name", "check", "arguments"), PROGRAMS)
def test_program_runs_with_documented_packages(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    check: Check,
    arguments: dict[str, object],
    age: str,
) -> None:
    # OpenClaw needs a newer Node than the oldest one.
    variables = installs.environment(**_node("newest"))
    place = use_installed(monkeypatch, tmp_path) / name
    monkeypatch.setenv("PATH", variables["PATH"])
    prefix = tmp_path / "prefix"
    # A global installation would change this machine.
    run([*install_line(name, age), "--prefix", prefix], variables, seconds=installs.SECONDS)
    place.mkdir(parents=True)
    (place / "node_modules").symlink_to(prefix / "lib" / "node_modules")
    (place / "node_modules" / ".bin").symlink_to(prefix / "bin")
    call(check, arguments, request)


def use_installed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Make `installs` find runtimes in a subfolder, which is returned, and the installed bridge."""
    monkeypatch.setattr(installs, "CACHE", folder / "runtimes")
    monkeypatch.setattr(installs, "BRIDGE", {})
    monkeypatch.setattr(installs, "_once", lambda *_: None)
    return installs.CACHE


def call(check: Check, arguments: dict[str, object], request: pytest.FixtureRequest) -> None:
    """Call an adapter's test with `arguments` and its fixtures."""
    names = inspect.signature(check).parameters
    fixtures = {name: request.getfixturevalue(name) for name in names if name not in arguments}
    check(**fixtures, **arguments)


def _node(age: str) -> dict[str, str]:
    """Return the search path: the newest packages need the pinned Node, the oldest the system's."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    if age == "oldest":
        return {}
    node = Path(javascript.command("node")[0])
    return {"PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
