"""The files of `deploy/`, checked by their own tools. test_balancer.py tests balancer.conf."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from contextrender_bridge.base.settings import list_settings, variables

from adapters.testing.installs import node_modules_of, python_of
from tests.server.servers import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
TOOLS = Path(__file__).parent


def test_dockerfile_passes_lint() -> None:
    hadolint = _program("hadolint")
    process = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


def test_image_has_user_and_health_check() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM"))
    assert any(line.startswith("USER 10001") for line in lines[last:])
    assert any(line.startswith("HEALTHCHECK") for line in lines[last:])


def test_systemd_unit_is_valid(tmp_path: Path) -> None:
    verify = _program("systemd-analyze")
    unit = tmp_path / "contextrender.service"
    text = (DEPLOY / "contextrender.service").read_text()
    # The unit's program need not be installed here.
    unit.write_text(text.replace("%h/.local/bin/contextrender", shutil.which("true") or ""))
    process = subprocess.run([verify, "verify", unit], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.slow
def test_compose_file_passes_lint() -> None:
    dclint = node_modules_of("compose", TOOLS) / ".bin" / "dclint"
    command = [str(dclint), "--max-warnings", "0", str(DEPLOY / "compose" / "compose.yaml")]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


@pytest.mark.slow
def test_kubernetes_manifests_are_valid() -> None:
    validate = python_of("kubernetes", TOOLS).with_name("kubernetes-validate")
    manifests = [
        path
        for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        # The first is for kubectl, and the second has kinds that are no part of Kubernetes.
        if path.name not in ("kustomization.yaml", "gateway.example.yaml")
    ]
    process = subprocess.run([validate, "--strict", *manifests], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("passed") == len(manifests) > 0


def test_kustomization_lists_every_manifest_except_secrets() -> None:
    folder = DEPLOY / "kubernetes"
    matches = re.findall(r"^  - ([\w.]+\.yaml)$", (folder / "kustomization.yaml").read_text(), re.M)
    existing = {path.name for path in folder.glob("*.yaml")}
    assert set(matches) == existing - {
        "kustomization.yaml",
        "secret.example.yaml",
        "gateway.example.yaml",
    }


def test_manifests_set_known_settings() -> None:
    known_variables = {variable for row in list_settings() for variable in variables(row.name)}
    texts = [path.read_text() for path in sorted(DEPLOY.rglob("*")) if path.is_file()]
    named_variables = {
        name for text in texts for name in re.findall(r"CONTEXTRENDER_[A-Z_]+", text)
    }
    assert named_variables - known_variables == set()


def _program(name: str) -> str:
    program = shutil.which(name) or shutil.which(name, path=str(REPOSITORY / ".venv" / "bin"))
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program
