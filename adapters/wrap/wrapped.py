"""Running `contextrender wrap` as a user does, what it told, and what the agent itself has left."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import Done, run
from adapters.testing.installs import environment
from tests.support.command import PROCESS

Json = dict[str, Any]


@dataclass
class Wrapped:
    """A user's home and work folder, and an agent of theirs in `bin`."""

    loopback: Loopback
    folder: Path
    bin: Path
    variables: dict[str, str] = field(default_factory=dict)
    report: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir()
        hosts.write_files(self.work)

    @property
    def home(self) -> Path:
        """The user's."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """Where the hosts' files are."""
        return self.folder / "work"

    def run(self, *words: str, options: Sequence[str] = (), fails: bool = False) -> Done:
        """The agent's run; `report` is what wrap told at its end."""
        small = ["--budget", str(hosts.BUDGET), "--policy", "contextrender", "--json", *options]
        own = environment(
            HOME=str(self.home),
            PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            CONTEXTRENDER_URL=self.loopback.service.url,
            CONTEXTRENDER_TOKEN=self.loopback.service.token,
            CONTEXTRENDER_DATA=str(self.folder / "data"),
            **self.variables,
        )
        command = [*PROCESS, "wrap", *small, *words]
        done = run(command, own, self.work, fails=fails)
        self.report = json.loads(done.stderr.splitlines()[-1])
        return done

    def run_alone(self, *words: str) -> Done:
        """The agent's run without wrap."""
        own = environment(
            HOME=str(self.home),
            PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            **self.variables,
        )
        return run([self.bin / words[0], *words[1:]], own, self.work)

    def check_left_nothing(self) -> None:
        """Nothing of the run is in ContextRender's own folder."""
        leases = self.folder / "data" / "leases"
        assert list(leases.iterdir()) == []


def check_recorded(read: Callable[[Path, AuditInput], None], home: Path) -> None:
    """As `audit` reads it: one run with every call, results in order, each call billed once."""
    found = AuditInput()
    read(home, found)
    assert not found.counts["damaged lines"] and not found.counts["unknown lines"], found.counts
    (run,) = found.settle().runs
    answered = [message for message in run.messages if message["role"] == "assistant"]
    assert len(answered) == len(hosts.steps())
    results = [str(message["content"]) for message in run.messages if message["role"] == "tool"]
    marked = [text for text in results if any(mark in text for mark in hosts.MARKS)]
    assert len(marked) == len(hosts.MARKS)
    assert all(mark in text for mark, text in zip(hosts.MARKS, marked, strict=True))
    called = [call["id"] for message in answered for call in message.get("tool_calls") or ()]
    assert [m["tool_call_id"] for m in run.messages if m["role"] == "tool"] == called
    assert run.counted_calls >= len(answered)
    assert all((used.fresh, used.output) == (9 * used.calls, 4 * used.calls) for used in run.usage)
    assert all(run.times) and run.times == sorted(run.times)
