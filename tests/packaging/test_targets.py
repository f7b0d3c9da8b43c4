"""Every target that the Makefile, the gate and the documents name is one that make can build."""

import re
import subprocess

import pytest

from tests.server.servers import REPOSITORY

MAKEFILE = (REPOSITORY / "Makefile").read_text()
NAMED = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)$", MAKEFILE, re.M)[0].replace("\\", "").split()


@pytest.mark.parametrize("target", NAMED)
def test_target(target: str) -> None:
    dry = ["make", "--dry-run", target, "TRACES=runs.jsonl"]
    done = subprocess.run(dry, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_the_gate_makes() -> None:
    (loop,) = re.findall(r"^for target in (.*); do$", (REPOSITORY / ".ci/run").read_text(), re.M)
    assert set(loop.split()) <= set(NAMED)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "adapters/README.md"])
def test_what_documents_name(document: str) -> None:
    named = re.findall(r"`make ([a-z-]+)", (REPOSITORY / document).read_text())
    assert named
    assert set(named) <= set(NAMED)
