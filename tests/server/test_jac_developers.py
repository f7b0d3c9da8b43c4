"""What docs/inspection.md shows Jac developers, run as it stands there."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.client import Api
from tests.api.transcripts import agent_run
from tests.server.servers import BIN, REPOSITORY, Server, running

TEXT = (REPOSITORY / "docs" / "inspection.md").read_text()
COMMANDS = re.findall(r"^CONTEXTRENDER_DATA=DATA jac enter .*$", TEXT, re.M)
WALKERS = re.findall(r"^```jac\n(.*?)^```$", TEXT, re.M | re.S)
RUN = agent_run(12)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("jac") / "data"
    command = [str(BIN / "contextrender"), "serve", "--port", "0", "--data", str(data)]
    with running(command, data) as server:
        yield server


@pytest.fixture(scope="module")
def api(service: Server) -> Iterator[Api]:
    token = service.command("user", "token", "local").stdout.strip()
    with service.client(token) as client:
        api = Api(client, token)
        api("sync", session="run-1", messages=RUN)
        api("sync", session="run-2", messages=agent_run(5))
        yield api


def output(command: str, service: Server, folder: Path) -> str:
    """What a command of the docs prints, with the docs' walkers in their files."""
    for walker in WALKERS:
        (name,) = re.findall(r"^walker (\w+)", walker, re.M)
        (folder / f"{name}.jac").write_text(walker)
    done = subprocess.run(
        command.replace("DATA=DATA", f"DATA={service.data}").replace(
            "--data DATA", f"--data {service.data}"
        ),
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_docs_show_two_walkers_of_ten_lines() -> None:
    assert len(COMMANDS) == len(WALKERS) == 2
    _, body = WALKERS[0].split("walker most_used {\n")
    assert len([line for line in body.splitlines() if line.strip()]) <= 10


def test_a_walker_of_ones_own_tells_the_results_most_used(
    service: Server, api: Api, tmp_path: Path
) -> None:
    told = output(COMMANDS[0], service, tmp_path)
    found = [(int(u), int(p)) for u, p in re.findall(r"^(\d+) result (\d+) of", told, re.M)]
    uses = {row["position"]: len(row["uses"]) for row in api("explain", session="run-1")["results"]}
    assert [u for u, _ in found] == sorted(uses.values(), reverse=True)[:5]
    assert found[0][0] > 0
    assert all(uses[position] == u for u, position in found)


def contextrender(service: Server, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "contextrender"), "jac", *words, "--data", str(service.data)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_one_command_runs_a_walker_on_the_stored_graph(
    service: Server, api: Api, tmp_path: Path
) -> None:
    told = output(COMMANDS[0], service, tmp_path)
    found = contextrender(service, tmp_path, "run", "most_used.jac", "run-1")
    assert (found.returncode, found.stdout) == (0, told)
    drawn = contextrender(service, tmp_path, "dot", "run-1").stdout
    assert drawn.startswith("digraph {")
    shape = api("inspect_session", session="run-1")
    assert drawn.count('label="result ') == shape["session"]["results"]
    assert re.findall(r"Session (\S+)", drawn) == ["run-1"]


def test_a_walker_that_is_run_writes_nothing(service: Server, api: Api, tmp_path: Path) -> None:
    walker = WALKERS[0].replace("most_used", "spoil")
    walker = walker.replace("visit [->:HasBranch:->];", "here.key = 'spoiled'; del here;")
    (tmp_path / "spoil.jac").write_text(walker)
    before = api("export_session", session="run-2")
    assert contextrender(service, tmp_path, "run", "spoil.jac", "run-2").returncode == 0
    assert api("export_session", session="run-2") == before


def test_what_cannot_be_run_is_a_sentence(service: Server, tmp_path: Path) -> None:
    (tmp_path / "most_used.jac").write_text(WALKERS[0])
    for words, sentence in (
        (("run", "nothing.jac"), "there is no file nothing.jac."),
        (("run", "most_used.jac"), "required positional argument: 'session'"),
        (("run", "most_used.jac", "--walker", "other"), "name one of the walkers"),
        (("dot", "nothing"), "there is no session 'nothing'."),
    ):
        done = contextrender(service, tmp_path, *words)
        assert done.returncode == 1 and sentence in done.stderr


def test_one_session_is_drawn(service: Server, api: Api, tmp_path: Path) -> None:
    output(COMMANDS[1], service, tmp_path)
    drawn = (tmp_path / "session.dot").read_text()
    assert drawn.startswith("digraph {")
    assert re.findall(r"Session (\S+)", drawn) == ["run-1"]
    shape = api("inspect_session", session="run-1")
    assert drawn.count('label="result ') == shape["session"]["results"]
    assert drawn.count('label="Reuse ') == shape["uses"]
