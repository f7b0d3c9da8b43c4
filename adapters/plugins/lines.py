"""Runs an agent that reads commands and writes events, one JSON object per line."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from adapters.plugins.user import User
from adapters.testing.scripted import Json

SECONDS = 600


@dataclass
class Lines:
    """The agent's standard streams. `events` has the events that it has written so far."""

    commands: IO[str]
    output: IO[str]
    events: list[Json] = field(default_factory=list)

    def send(self, **command: object) -> None:
        """Send a command to the agent."""
        self.commands.write(json.dumps(command) + "\n")
        self.commands.flush()

    def wait(self, is_last: Callable[[Json], bool]) -> Json:
        """Wait for the next event for which `is_last` returns True, and return it."""
        for line in self.output:
            event: Json = json.loads(line)
            self.events.append(event)
            if is_last(event):
                return event
        raise AssertionError(f"the agent ended: {self.events[-3:]}")


@contextmanager
def running(user: User, *words: str) -> Iterator[Lines]:
    """Run the agent until the block ends, for at most `SECONDS`."""
    with (
        (user.folder / "stderr").open("a") as errors,
        subprocess.Popen(
            [user.program, *words],
            cwd=user.work,
            env=dict(user.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin and process.stdout
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        try:
            yield Lines(process.stdin, process.stdout)
        finally:
            limit.cancel()
            process.terminate()
