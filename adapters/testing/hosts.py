"""The task of the examples: an agent looks at one host after the other.

The result for each host (its "finding") names the next host. A finding has about 150 tokens, so a
budget of 600 tokens omits most findings. Later the agent restarts a host that only an early finding
names. This call uses that finding, so the finding is restored.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from contextrender_bridge.client.replies import SessionView

from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.scripted import Call, Say, Script, Step, restored_results
from tests.support.scripted_model import Model

BUDGET = 600
FIRST, SECOND = range(6), range(6, 9)
"""The hosts that the first and the second question are about."""
EARLY = 2
"""The host that is restarted at the end, and that only an early finding names."""
ANSWERS = ("The first six are fast.", "The others, too.")
MARKS = [f"the next is host_{number + 1}_X" for number in range(SECOND.stop)]
"""The texts that only one host's finding has, by host."""


def steps() -> list[Step]:
    """Return the steps for two questions of the user, each with about ten calls and an answer."""
    host = f"host_{EARLY + 1}_X"
    return [
        *(Call("look", {"host": f"host_{number}_X"}) for number in FIRST),
        Say(ANSWERS[0]),
        *(Call("look", {"host": f"host_{number}_X"}) for number in SECOND),
        *(Call("restart", {"host": host}) for _ in range(10)),
        Say(ANSWERS[1]),
    ]


def finding(number: int) -> str:
    """Return the result of `look` for a host."""
    filler = "All is well here and nothing else is to be told. " * 12
    return f"It answers in {number * 17 + 5} ms; {MARKS[number]}.\n{filler}"


def write_files(folder: Path) -> None:
    """Write a file for each host, and a command that restarts one."""
    folder.mkdir(exist_ok=True)
    for number in range(len(MARKS)):
        (folder / f"host_{number}_X.txt").write_text(f"{finding(number)}\n")
    restart = folder / "restart"
    restart.write_text("#!/bin/sh\necho Done.\n")
    restart.chmod(0o755)


def lengthen(folder: Path, rows: Sequence[int]) -> int:
    """Add this many rows of 40 bytes to each host's file, and return the size of all files."""
    for number, count in enumerate(rows):
        with (folder / f"host_{number}_X.txt").open("a") as file:
            file.writelines(f"row {row:05}: all is well and quiet there.\n" for row in range(count))
    return sum(path.stat().st_size for path in folder.glob("host_*_X.txt"))


def check_newest_complete(script: Script, start: str, rows: int) -> None:
    """Check that each prompt has all rows of the file that was read last, and none has all files.

    `start` is how a result begins in the JSON of a request.
    """
    row_names = [f"row {row:05}:" for row in range(rows)]
    texts = [json.dumps(body.get("messages") or body["input"]) for body in script.requests]
    for text in texts[1:]:
        newest = text.rpartition(start)[2]
        assert not [name for name in row_names if name not in newest]
    assert max(text.count(row_names[-1]) for text in texts) < len(MARKS)


def run_example(name: str, model: Model, environment: Mapping[str, str]) -> Script:
    """Run `adapters/NAME/example.py` with its runtime, and return the script with its requests."""
    script = Script(model, steps())
    process = run([python_of(name), ADAPTERS / name / "example.py"], environment)
    assert [line for line in process.stdout.splitlines() if line in ANSWERS] == list(ANSWERS)
    assert UNCHANGED not in process.stderr, process.stderr
    return script


def check(script: Script) -> None:
    """Check that each prompt had the newest finding, none had all, and `EARLY` was restored."""
    marks_by_request = script.marks_in_requests(MARKS)
    assert len(marks_by_request) == len(script.steps)
    newest = -1  # the host of the newest finding
    for step, marks in zip([None, *script.steps], marks_by_request, strict=False):
        if isinstance(step, Call) and step.name == "look":
            newest += 1
            assert newest in marks
    assert all(len(marks) < len(MARKS) / 2 + 1 for marks in marks_by_request)
    assert EARLY in restored_results(marks_by_request), marks_by_request


def check_turns(session: SessionView, steps: Sequence[Step]) -> None:
    """Check that a session has every call that the proxy forwarded.

    The last call is a turn only when its usage is recorded, some seconds after the agent's end.
    """
    assert session["turns"] in (len(steps) - 1, len(steps))
