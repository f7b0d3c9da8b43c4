"""The task of the examples: hosts, looked at one after the other, each naming the next.

A finding is about 150 tokens; within a budget of 600 most are left out. Restarting a host that
only an early finding names is a use of that finding, and brings it back.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.scripted import Call, Say, Script, Step, restored
from tests.support.scripted_model import Model

BUDGET = 600
EARLY = 2
FIRST, SECOND = range(6), range(6, 9)
ANSWERS = ("The first six are fast.", "The others, too.")
MARKS = [f"the next is host_{number + 1}_X" for number in range(SECOND.stop)]
"""What only that host's finding has in it."""


def steps() -> list[Step]:
    """Two turns of the user's: ten calls or so each, and an answer."""
    named = f"host_{EARLY + 1}_X"
    return [
        *(Call("look", {"host": f"host_{number}_X"}) for number in FIRST),
        Say(ANSWERS[0]),
        *(Call("look", {"host": f"host_{number}_X"}) for number in SECOND),
        *(Call("restart", {"host": named}) for _ in range(10)),
        Say(ANSWERS[1]),
    ]


def finding(number: int) -> str:
    """What looking at a host tells."""
    filler = "All is well here and nothing else is to be told. " * 12
    return f"It answers in {number * 17 + 5} ms; {MARKS[number]}.\n{filler}"


def write_files(folder: Path) -> None:
    """For runtimes that read files and run commands: a file a host, and one that restarts it."""
    folder.mkdir(exist_ok=True)
    for number in range(len(MARKS)):
        (folder / f"host_{number}_X.txt").write_text(f"{finding(number)}\n")
    restart = folder / "restart"
    restart.write_text("#!/bin/sh\necho Done.\n")
    restart.chmod(0o755)


def lengthen(folder: Path, rows: Sequence[int]) -> int:
    """Adds so many rows of 40 bytes to each host's file; how many bytes they all have."""
    for number, count in enumerate(rows):
        with (folder / f"host_{number}_X.txt").open("a") as file:
            file.writelines(f"row {row:05}: all is well and quiet there.\n" for row in range(count))
    return sum(path.stat().st_size for path in folder.glob("host_*_X.txt"))


def run_example(name: str, model: Model, environment: Mapping[str, str]) -> Script:
    """Runs `adapters/NAME/example.py` with the runtime it needs; what the model was asked."""
    script = Script(model, steps())
    done = run([python_of(name), ADAPTERS / name / "example.py"], environment)
    assert [line for line in done.stdout.splitlines() if line in ANSWERS] == list(ANSWERS)
    assert UNCHANGED not in done.stderr
    return script


def check(script: Script) -> None:
    """Every call had the newest finding, none had all, and the early one left and came back."""
    seen = script.seen(MARKS)
    assert len(seen) == len(script.steps)
    found = -1
    for step, marks in zip([None, *script.steps], seen, strict=False):
        if isinstance(step, Call) and step.name == "look":
            found += 1
            assert found in marks
    assert all(len(marks) < len(MARKS) / 2 + 1 for marks in seen)
    assert EARLY in restored(seen), seen
