"""A built wheel, alone in an empty environment, serves and evaluates from anywhere."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.packaging.documents import of_the_distribution
from tests.server.servers import REPOSITORY, running
from tests.support.host_program import run_host

pytestmark = pytest.mark.slow


def test_an_installed_wheel_serves(data: Path) -> None:
    place = data.parent
    run = ["-m", "build", "--no-isolation", "--outdir", str(place), str(REPOSITORY / "py_bridge")]
    subprocess.run([sys.executable, *run], check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    python = place / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    lock = str(REPOSITORY / "requirements" / "lock.txt")
    subprocess.run([*pip, "--no-deps", "-r", lock], check=True, capture_output=True)
    subprocess.run([*pip, f"{wheel}[server]"], check=True, capture_output=True)

    before = _files(place / "venv")
    for name in ("contextrender", "jac"):
        command = [str(python.with_name(name)), "serve", "--port", "0", "--data", str(data)]
        with running(command, data, cwd=place, PYTHONPATH="") as server, server.client() as client:
            assert httpx.get(server.url + "/healthz").status_code == 200
            reply = client.post("/walker/nothing")
            assert reply.json()["error"]["code"] == "unknown_walker"
            assert server.stop() == 0
    shown = [str(python.with_name("contextrender")), "demo", "--limit", "1"]
    environment = {**os.environ, "PYTHONPATH": ""}
    demo = subprocess.run(shown, cwd=place, env=environment, capture_output=True, text=True)
    assert demo.returncode == 0, demo.stderr
    assert "One call explained" in demo.stdout
    _run_what_is_documented(place, python.with_name("contextrender"))
    run_host(python, place / "host", "amid")
    assert _files(place / "venv") == before


def _run_what_is_documented(place: Path, program: Path) -> None:
    """The documents' commands on recorded runs, on those of the demo under the documents' names."""
    runs = (REPOSITORY / "py_bridge/contextrender_bridge/data/demo.jsonl").read_bytes()
    (place / "runs").mkdir()
    for name in ("runs.jsonl.gz", "runs/one.jsonl.gz"):
        (place / name).write_bytes(gzip.compress(runs))
    told = [one for one in of_the_distribution() if one.words[1] in ("replay", "eval")]
    assert any(not one.needs_recorded_runs for one in told)
    for one in told:
        if one.needs_recorded_runs:
            continue
        done = subprocess.run(
            [program, *one.words[1:]],
            cwd=place,
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{one.document}: {' '.join(one.words)}\n{done.stderr}"


def _files(folder: Path) -> set[str]:
    return {
        os.path.join(where, name)  # noqa: PTH118
        for where, _, names in os.walk(folder)
        for name in names
        if not name.endswith(".pyc")
    }
