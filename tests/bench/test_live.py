"""bench/live: a bare agent and a wrapped one, with the scripted model and a real service."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_the_scripted_run_shows_bill_steps_and_success_side_by_side(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "bench.live", "--tasks", "1", "--sheets", "10"]
    done = subprocess.run(
        [*command, "--wrap", "--budget 6000", "--json", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    bare, wrapped = json.loads(out.read_text())["runs"]
    assert (bare["way"], wrapped["way"]) == ("bare", "wrapped")
    assert bare["solved"]
    assert wrapped["solved"]
    assert bare["steps"] == 11 <= wrapped["steps"]
    assert wrapped["prompt"] < bare["prompt"]
    assert 0 < bare["cached"] < bare["prompt"]
    rows = {line.split("  ")[0]: line.split()[-3:] for line in done.stdout.splitlines()[2:]}
    assert rows["solved"] == ["1", "1", "1.00"]
    assert rows["steps"][:2] == ["11", str(wrapped["steps"])]
    assert rows["dollars"][1] == f"{wrapped['dollars']:.4f}"
