"""An upgrade under load: the first and the current version of the store layout use one database."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.server.servers import REPOSITORY, Server, running
from tests.support.persistent_agents import Agent
from tests.support.postgres import find_missing_part

LAYOUT = "py_bridge/contextrender_bridge/store/schema.py"
TURNS = 10
pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(find_missing_part() is not None, reason=find_missing_part() or ""),
]


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Extract the project at the commit that last changed the layout."""
    git = ["git", "-C", str(REPOSITORY)]
    log = [*git, "log", "-1", "--format=%H", "--", LAYOUT]
    commit = subprocess.run(log, capture_output=True, text=True).stdout.strip()
    process = subprocess.run([*git, "archive", commit], capture_output=True) if commit else None
    if process is None or process.returncode:
        pytest.skip("the project's history is not here")
    with tarfile.open(fileobj=io.BytesIO(process.stdout)) as archive:
        archive.extractall(tmp_path / "older", filter="data")
    return tmp_path / "older"


def test_two_versions_write_the_same_session(
    older: Path, new_database: str, tmp_path: Path
) -> None:
    path = os.pathsep.join([str(older / "py_bridge"), str(older)])
    with (
        serving(tmp_path / "that", older, new_database, PYTHONPATH=path) as before,
        serving(tmp_path / "this", REPOSITORY, new_database) as after,
        ExitStack() as opened,
    ):
        agents = [Agent(server, "shared") for server in (before, after)]
        for agent in agents:
            opened.enter_context(agent.client)
        history: list[dict[str, str]] = []
        for _ in range(TURNS):
            for agent in agents:
                agent.acknowledged = history
                agent.go_on()
                history = agent.acknowledged
        assert len(history) == 2 * TURNS
        assert [agent.stored_messages() for agent in agents] == [history, history]


@contextmanager
def serving(folder: Path, project: Path, database: str, **environment: str) -> Iterator[Server]:
    """Run a project's server on a database; it prints the path that it was loaded from."""
    data = folder / "data"
    program = (
        "import sys, contextrender_bridge as ours; from contextrender_bridge.cli import main; "
        "print(ours.__file__, file=sys.stderr); sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--data", str(data)]
    environment["CONTEXTRENDER_DATABASE"] = database
    with running(command, data, cwd=project, **environment) as server:
        assert f"{project / 'py_bridge'}" in server.err
        yield server
