"""`make dist`: the folder runs alone, from a wheel with compiled Jac and without llvmlite."""

import os
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.server.servers import REPOSITORY

pytestmark = pytest.mark.release
WARM_SECONDS = 15.0
"""Processor seconds, which depend little on how busy the machine is."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    subprocess.run([sys.executable, REPOSITORY / ".ci" / "make-dist", folder], check=True)
    return folder


def run(dist: Path, *words: str) -> subprocess.CompletedProcess[str]:
    home = dist.parent / "home"
    inherited = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    environment = {
        **{
            name: value
            for name, value in inherited.items()
            if not name.startswith("CONTEXTRENDER_")
        },
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "UV_PYTHON": sys.executable,
        "UV_CACHE_DIR": subprocess.check_output(
            [sys.executable, "-m", "uv", "cache", "dir"], text=True
        ).strip(),
    }
    home.mkdir(exist_ok=True)
    command = [str(dist / "contextrender"), *words]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="it needs sha256sum")
def test_checksums_cover_all_files(dist: Path) -> None:
    process = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    names = {line.partition(":")[0] for line in process.stdout.splitlines()}
    assert names == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}


def test_wheel_has_compiled_jac_and_needs_no_compiler(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    sources = [name for name in names if name.endswith(".jac") and "/app/" in name]
    compiled = [name for name in names if name.endswith(".jir")]
    assert len(sources) - len(compiled) <= 1, "all but what asks a model"
    pins = (dist / "requirements.txt").read_text()
    assert "jaclang==" in pins and "llvmlite" not in pins and "index-url" not in pins
    assert "COPY *.whl requirements.txt" in (dist / "Dockerfile").read_text()


def test_demo_runs_from_the_folder_alone(dist: Path) -> None:
    first = run(dist, "demo")
    assert first.returncode == 0, first.stderr
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    second = run(dist, "demo")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert second.returncode == 0 and "One call explained" in second.stdout
    assert processor_seconds < WARM_SECONDS, processor_seconds
    audit = run(dist, "audit", str(REPOSITORY / "py_bridge/contextrender_bridge/data/demo.jsonl"))
    assert audit.returncode == 0, audit.stderr
