"""The examples for Jac developers in examples/README.md work."""

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.client import Api
from tests.server.servers import BIN, REPOSITORY, Server, running_server
from tests.support.transcripts import agent_run

pytestmark = pytest.mark.release

TEXT = (REPOSITORY / "examples" / "README.md").read_text()
COMMANDS = re.findall(r"^CONTEXTRENDER_DATA=DATA contextrender jac enter .*$", TEXT, re.M)
WALKERS = re.findall(r"^```jac\n(.*?)^```$", TEXT, re.M | re.S)
RUN = agent_run(12)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("jac") / "data"
    with running_server(data) as server:
        yield server


@pytest.fixture(scope="module")
def api(service: Server) -> Iterator[Api]:
    with service.api() as api:
        api("sync", session="run-1", messages=RUN)
        api("sync", session="run-2", messages=agent_run(5))
        yield api


def output(command: str, service: Server, folder: Path) -> str:
    """Write the docs' walkers to files, run a command of the docs and return its output."""
    for walker in WALKERS:
        (name,) = re.findall(r"^walker (\w+)", walker, re.M)
        (folder / f"{name}.jac").write_text(walker)
    process = subprocess.run(
        re.sub(r"\bDATA\b", str(service.data), command),
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "Falling back" not in process.stderr
    return process.stdout


def test_documented_walker_lists_most_used_results(
    service: Server, api: Api, tmp_path: Path
) -> None:
    printed = output(COMMANDS[0], service, tmp_path)
    uses_by_position = [
        (int(use_count), int(position))
        for use_count, position in re.findall(r"^(\d+) result (\d+) of", printed, re.M)
    ]
    uses = {row["position"]: len(row["uses"]) for row in api("explain", session="run-1")["results"]}
    largest_counts = sorted(uses.values(), reverse=True)[:5]
    assert [use_count for use_count, _ in uses_by_position] == largest_counts
    assert uses_by_position[0][0] > 0
    assert all(uses[position] == use_count for use_count, position in uses_by_position)


def test_documented_walker_lists_history_of_a_result(
    service: Server, api: Api, tmp_path: Path
) -> None:
    """Its edges agree with the replies of the calls."""
    views = {}
    for position, message in enumerate(RUN):
        if message["role"] == "assistant":
            view = api("render", session="life-3", messages=RUN[:position], budget=900)
            views[view["turn"]] = {
                *view["complete"],
                *(substitute["position"] for substitute in view["substitutes"]),
            }
    api("sync", session="life-3", messages=RUN)
    shutil.copy(REPOSITORY / "examples" / "life.jac", tmp_path)
    for row in api("explain", session="life-3")["results"][:4]:
        process = contextrender(
            service, tmp_path, "run", "life.jac", "life-3", str(row["position"])
        )
        assert process.returncode == 0, process.stderr
        events = ast.literal_eval(process.stdout)
        in_view = False
        for turn, positions in sorted(views.items()):
            in_view |= (turn, "shown") in events
            in_view &= (turn, "dropped") not in events
            assert in_view == (row["position"] in positions)
        use_turns = [turn for turn, kind in events if kind == "used"]
        assert use_turns == [use["turn"] for use in row["uses"]]


def contextrender(service: Server, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "contextrender"), "jac", *words, "--data", str(service.data)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_jac_run_executes_walker_on_stored_graph(service: Server, api: Api, tmp_path: Path) -> None:
    printed = output(COMMANDS[0], service, tmp_path)
    process = contextrender(service, tmp_path, "run", "most_used.jac", "run-1")
    assert (process.returncode, process.stdout) == (0, printed)
    dot = contextrender(service, tmp_path, "dot", "run-1").stdout
    assert dot.startswith("digraph {")
    shape = api("inspect_session", session="run-1")
    assert dot.count('label="result ') == shape["session"]["results"]
    # Each answer of this run uses a result twice: in its text, and in its next call.
    assert dot.count('label="Reuse ') == 2 * shape["uses"]
    assert re.findall(r"Session (\S+)", dot) == ["run-1"]
    api("sync", session="other-3", messages=agent_run(1))
    dot = contextrender(service, tmp_path, "dot", "oth").stdout  # a unique beginning
    assert re.findall(r"Session (\S+)", dot) == ["other-3"]


def test_jac_run_writes_nothing(service: Server, api: Api, tmp_path: Path) -> None:
    walker = WALKERS[0].replace("most_used", "spoil")
    walker = walker.replace("visit [->:HasBranch:->];", "here.key = 'spoiled'; del here;")
    (tmp_path / "spoil.jac").write_text(walker)
    before = api("export_session", session="run-2")
    assert contextrender(service, tmp_path, "run", "spoil.jac", "run-2").returncode == 0
    assert api("export_session", session="run-2") == before


def test_jac_run_explains_errors_in_one_sentence(service: Server, api: Api, tmp_path: Path) -> None:
    (tmp_path / "most_used.jac").write_text(WALKERS[0])
    for words, sentence in (
        (("run", "nothing.jac"), "there is no file nothing.jac."),
        (("run", "most_used.jac"), "required positional argument: 'session'"),
        (("run", "most_used.jac", "--walker", "other"), "name one of the walkers"),
        (("dot", "nothing"), "there is no session 'nothing'."),
        (("dot", "run-"), "2 sessions begin with 'run-'."),
    ):
        process = contextrender(service, tmp_path, *words)
        assert process.returncode == 1 and sentence in process.stderr


BROKEN = {
    "walker w {\n    can go with Root entry {\n        print(1 ;\n    }\n}\n": "line 3: Missing",
    "walker w {\n    can go with Root entry {\n        x = 1 / 0;\n    }\n}\n": (
        "line 3: ZeroDivisionError: division by zero."
    ),
    "import from nowhere { x }\nwalker w { }\n": "line 1: ModuleNotFoundError: No module named",
    "walker w {\n    has n: int = [].pop();\n}\n": "IndexError: pop from empty list.",
}


@pytest.mark.parametrize("source", BROKEN)
def test_error_in_walker_has_line_and_reason(source: str, service: Server, tmp_path: Path) -> None:
    (tmp_path / "mine.jac").write_text(source)
    process = contextrender(service, tmp_path, "run", str(tmp_path / "mine.jac"))
    assert process.returncode == 1
    assert process.stderr.startswith(f"contextrender: {tmp_path / 'mine.jac'}")
    assert BROKEN[source] in process.stderr and process.stderr.count("\n") == 1


def test_entered_walker_with_syntax_error_prints_no_traceback(
    service: Server, tmp_path: Path
) -> None:
    file = tmp_path / "mine.jac"
    file.write_text(next(iter(BROKEN)))
    environment = {**os.environ, "CONTEXTRENDER_DATA": str(service.data)}
    command = [str(BIN / "contextrender"), "jac", "enter", str(file), "w"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr.startswith(f"contextrender: {file}, line 3: Missing")


def test_jac_commands_work_without_jac_on_path(service: Server, api: Api) -> None:
    environment = {"PATH": "/usr/bin:/bin", "CONTEXTRENDER_DATA": str(service.data)}
    command = [str(BIN / "contextrender"), "jac", "db", "inspect"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "ToolResult" in process.stdout
