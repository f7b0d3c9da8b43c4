"""A built wheel, alone in an empty environment, serves and evaluates from anywhere."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.server.servers import REPOSITORY, running

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
    assert _files(place / "venv") == before


def _files(folder: Path) -> set[str]:
    return {
        os.path.join(where, name)  # noqa: PTH118
        for where, _, names in os.walk(folder)
        for name in names
        if not name.endswith(".pyc")
    }
