"""bench/live: a bare agent and a wrapped one, with the scripted model and a real service."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.live.provider import Scripted
from bench.live.tasks import made

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


def test_the_scripted_model_looks_up_again_what_it_no_longer_sees(tmp_path: Path) -> None:
    task = made(tmp_path, 3, sheets=4)
    names = " ".join(sorted(path.name for path in task.folder.iterdir()))
    user = {"role": "user", "content": f"{task.prompt}\n\nThe files: {names}"}
    said = [{"role": "assistant", "content": f"Next: sheet {n} of 4."} for n in (1, 2, 3, 4)]
    seen = [
        {"role": "tool", "content": (task.folder / f"sheet_{n:02}.txt").read_text()}
        for n in (0, 1, 3)
    ]
    model = Scripted()
    (choice,) = model.answer({"messages": [user, *said, *seen]})["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"name":"sheet_02.txt"}'
    again = {"role": "tool", "content": (task.folder / "sheet_02.txt").read_text()}
    reply = model.answer({"messages": [user, *said, *seen, again]})
    assert task.solved(reply["choices"][0]["message"]["content"])
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert not task.solved("PRICE_1")
