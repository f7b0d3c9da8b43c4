"""A request enters and changes no more files than its goal allows."""

import subprocess
import sys

import pytest

from bench.way import ROOT


@pytest.mark.slow
@pytest.mark.xfail(reason="the way of a request is longer than its goal (bench.way)", strict=False)
def test_no_way_is_longer_than_its_goal() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.way"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
