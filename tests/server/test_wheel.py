"""The built wheel, in an empty environment, runs every documented command.

The environment has the locked versions, without LiteLLM and byLLM. Commands that install are
resolved, not executed; a command for which neither is possible is marked in its document.
"""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import ContextRender, load_credentials

from tests.packaging.documents import DocumentedCommand, documented_commands, scripts
from tests.server.servers import REPOSITORY, Server, running

pytestmark = pytest.mark.release

COMMANDS = {command.words: command for command in documented_commands() if not command.needs}
INSTALLERS = ("pip", "pipx", "uv")
LISTENS = ("serve", "proxy")
SESSION = "run-17"
DEMO = REPOSITORY / "py_bridge/contextrender_bridge/data/demo.jsonl"
RUN = json.loads(DEMO.read_text().splitlines()[0])
RUN["messages"] = RUN["messages"][:61]


def install(place: Path, requirements: list[str], python: str = sys.executable) -> None:
    """Create an environment below `place` with these requirements, in the locked versions."""
    pins = place / "pins.txt"
    lines = (REPOSITORY / "requirements" / "lock.txt").read_text().splitlines()
    # With hashes, pip would require one for the wheel, too.
    pins.write_text("\n".join(line.rstrip(" \\") for line in lines if "==" in line))
    uv, home = [sys.executable, "-m", "uv"], str(place / "venv")
    subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", python, home], check=True)
    pip = [*uv, "pip", "install", "--quiet", "--python", f"{home}/bin/python"]
    subprocess.run([*pip, "--constraint", pins, *requirements], check=True)


@dataclass
class Installed:
    """An environment with the wheel, a working folder and a home folder."""

    place: Path

    @property
    def bin(self) -> Path:
        return self.place / "venv" / "bin"

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the working folder."""
        return subprocess.run(
            words, cwd=self.place, env=self.environment(**variables), capture_output=True, text=True
        )

    def environment(self, **variables: str) -> dict[str, str]:
        """Return environment variables without those of the repository."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CONTEXTRENDER_", "PYTHON", "VIRTUAL_ENV"))
        }
        variables_of_user = {
            "HOME": str(self.place),
            "PATH": f"{self.bin}{os.pathsep}{inherited['PATH']}",
        }
        return {
            **inherited,
            **variables_of_user,
            "CONTEXTRENDER_DATA": str(self.place / "data"),
            **variables,
        }


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("installed")
    build = ["-m", "build", "--no-isolation", "--wheel", "--outdir", str(place)]
    subprocess.run(
        [sys.executable, *build, str(REPOSITORY / "py_bridge")], check=True, capture_output=True
    )
    (wheel,) = place.glob("*.whl")
    install(place, [f"{wheel}[server,proxy,mcp,eval]"])
    (place / "runs").mkdir()
    for name in ("runs.jsonl.gz", "runs/one.jsonl.gz"):
        (place / name).write_bytes(gzip.compress(json.dumps(RUN).encode()))
    (place / "requests").mkdir()
    for name in ("traces.jsonl", "requests/one.json"):
        (place / name).write_text(json.dumps({"model": "gpt-5.1", "messages": RUN["messages"]}))
    _leave_a_codex_session(place / ".codex" / "sessions" / "rollout-1.jsonl")
    (place / "py_bridge").symlink_to(REPOSITORY / "py_bridge")
    return Installed(place)


@pytest.fixture(scope="module")
def server(installed: Installed) -> Iterator[Server]:
    """Start the wheel's service with the session that the documents name."""
    data = installed.place / "data"
    command = [str(installed.bin / "contextrender"), "serve", "--port", "0", "--data", str(data)]
    with running(command, data, PYTHONPATH="", HOME=str(installed.place)) as server:
        with ContextRender(server.url, load_credentials(data).token) as client:
            client.render(SESSION, RUN["messages"])
        yield server


def test_wheel_serves_by_both_commands_and_changes_no_file(installed: Installed) -> None:
    def files() -> set[Path]:
        paths = (installed.place / "venv").rglob("*")
        return {path for path in paths if path.is_file() and path.suffix != ".pyc"}

    before = files()
    demo = installed.run("contextrender", "demo")
    assert demo.returncode == 0, demo.stderr
    assert "One call explained" in demo.stdout
    for name in ("contextrender", "jac"):
        data = installed.place / f"data-{name}"
        command = [str(installed.bin / name), "serve", "--port", "0", "--data", str(data)]
        with (
            running(command, data, PYTHONPATH="", HOME=str(installed.place)) as server,
            server.client() as client,
        ):
            assert httpx.get(server.url + "/healthz").status_code == 200
            reply = client.post("/walker/nothing")
            assert reply.json()["error"]["code"] == "unknown_endpoint"
            assert server.stop() == 0
    assert files() == before


COMPILES = """
import sys
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.runtime import load_app
load_app(app_dir())
print("llvmlite" in sys.modules)
"""


def test_first_start_compiles_app_without_llvmlite(installed: Installed) -> None:
    """If the compiled app is missing, it is compiled again without loading llvmlite."""
    program = str(installed.bin / "python")
    installed.run(program, "-c", COMPILES)
    compiled = list((installed.place / ".cache").rglob("render.*.jir"))
    assert compiled
    for file in compiled:
        file.unlink()
    assert installed.run(program, "-c", COMPILES).stdout == "False\n"


def test_missing_models_extra_is_explained(installed: Installed) -> None:
    process = installed.run("contextrender", "serve", "--port", "0", CONTEXTRENDER_MODEL="gpt-4o")
    assert process.returncode == 1
    pattern = r"CONTEXTRENDER_MODEL 'gpt-4o' needs `uv pip install '/.+\[models\]'`\."
    assert re.search(pattern, process.stderr)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_documented_command_runs(
    words: tuple[str, ...], installed: Installed, server: Server
) -> None:
    command = COMMANDS[words]
    if words[0] in INSTALLERS:
        _resolve(command)
    elif words[0] == "contextrender" and words[1] in LISTENS:
        _listen(command, installed)
    elif words[0] == "contextrender":
        process = installed.run(*words)
        assert process.returncode == 0, f"{command.document}: {' '.join(words)}\n{process.stderr}"
    else:
        pytest.fail(f"{command.document}: {' '.join(words)} is neither run nor marked `# needs X`")


def test_client_without_extras_runs_on_python_3_10(server: Server, tmp_path: Path) -> None:
    """The distribution is installed without extras."""
    (wheel,) = server.data.parent.glob("*.whl")
    install(tmp_path, [str(wheel)], _python_3_10())
    program = tmp_path / "venv" / "bin" / "contextrender"
    token = load_credentials(server.data).token
    variables = {"CONTEXTRENDER_URL": server.url, "CONTEXTRENDER_TOKEN": token}
    alone = Installed(tmp_path)
    for words in (
        ["sessions"],
        ["show", SESSION],
        ["explain", SESSION],
        ["graph", SESSION],
        ["recall", SESSION, "--query", "deploy"],
        ["doctor"],
        ["--version"],
        [],
    ):
        process = alone.run(str(program), *words, **variables)
        assert process.returncode == 0, f"{words}\n{process.stderr}"
        assert process.stdout


@pytest.mark.parametrize(("document", "script"), scripts())
def test_documented_script_runs(
    document: str, script: str, installed: Installed, server: Server
) -> None:
    adapted_script = script.replace("http://127.0.0.1:8000", server.url)
    adapted_script = adapted_script.replace(
        "~/.local/share/contextrender", str(installed.place / "data")
    )
    process = installed.run("bash", "-euc", adapted_script)
    assert process.returncode == 0, f"{document}\n{process.stderr}"
    assert '"reports"' in process.stdout, f"{document}\n{process.stdout}"


def _leave_a_codex_session(file: Path) -> None:
    call = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "seen " * 99}
    usage = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 2}
    count = {"last_token_usage": usage, "total_token_usage": {"total_tokens": 102}}
    lines = [
        {"type": "session_meta", "payload": {"id": "x"}},
        {"type": "turn_context", "payload": {"model": "gpt-5.1"}},
        {"type": "response_item", "payload": call},
        {"type": "response_item", "payload": output},
        {"type": "event_msg", "payload": {"type": "token_count", "info": count}},
    ]
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(json.dumps(line) for line in lines))


def _resolve(command: DocumentedCommand) -> None:
    """Assert that the packages of an install command exist and are compatible."""
    ignored_words = ("--python", "python3.12")  # by installers that would use another
    words = [word for word in command.words[1:] if word not in ("tool", "install", *ignored_words)]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--dry-run"]
    # Resolve into an empty target; each agent's package limits the Python versions itself.
    uv_command = [*uv, "--target", "/nonexistent", "--python", sys.executable, *words]
    process = subprocess.run(uv_command, cwd=REPOSITORY, capture_output=True, text=True)
    assert process.returncode == 0, (
        f"{command.document}: {' '.join(command.words)}\n{process.stderr}"
    )


def _listen(command: DocumentedCommand, installed: Installed) -> None:
    """Start a server command; assert that it prints its address and stops on SIGINT."""
    data = installed.place / "data-of-its-own" if command.words[1] == "serve" else None
    variables = {"CONTEXTRENDER_DATA": str(data)} if data else {}
    with subprocess.Popen(
        [*command.words, "--port", "0"],
        cwd=installed.place,
        env=installed.environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (0, 130)


def _python_3_10() -> str:
    command = [sys.executable, "-m", "uv", "python", "find", "--no-python-downloads", "3.10"]
    # pyenv offers a version only if this variable names it.
    variables = {**os.environ, "PYENV_VERSION": "3.10"}
    process = subprocess.run(command, capture_output=True, text=True, env=variables)
    if process.returncode:
        pytest.skip("there is no Python 3.10 on this machine")
    return process.stdout.strip()
