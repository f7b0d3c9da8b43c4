"""The files that a request enters, and its changes of file."""

import subprocess
import sys

import pytest

from bench.request_path import ROOT


@pytest.mark.slow
def test_no_request_exceeds_its_limit() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.request_path"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.stdout.count("\n") == 6, ran.stdout + ran.stderr
    exceeding = [line for line in ran.stdout.splitlines() if "goal" in line]
    assert not [line for line in exceeding if line.startswith("explain")], ran.stdout
    if exceeding:
        pytest.xfail("requests enter more files than their limits: " + "; ".join(exceeding))
