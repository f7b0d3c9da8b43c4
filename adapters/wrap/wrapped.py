"""A user who runs `contextrender wrap`, with its report and the agent's own session files."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import CommandResult, run
from adapters.testing.installs import environment
from tests.support.command import PROCESS

Json = dict[str, Any]


@dataclass
class WrappedAgent:
    """A user with a home and a work folder, and with the agent's program in `bin`."""

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
        """The user's home folder."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The folder of the hosts' files."""
        return self.folder / "work"

    def run(self, *words: str, options: Sequence[str] = (), fails: bool = False) -> CommandResult:
        """Run the agent with `wrap`, and store the report that `wrap` prints in `report`."""
        small = ["--budget", str(hosts.BUDGET), "--policy", "contextrender", "--json", *options]
        variables = environment(
            HOME=str(self.home),
            PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            CONTEXTRENDER_URL=self.loopback.service.url,
            CONTEXTRENDER_TOKEN=self.loopback.service.token,
            CONTEXTRENDER_DATA=str(self.folder / "data"),
            **self.variables,
        )
        command = [*PROCESS, "wrap", *small, *words]
        process = run(command, variables, self.work, fails=fails)
        self.report = json.loads(process.stderr.splitlines()[-1])
        return process

    def run_alone(self, *words: str) -> CommandResult:
        """Run the agent without `wrap`."""
        variables = environment(
            HOME=str(self.home),
            PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            **self.variables,
        )
        return run([self.bin / words[0], *words[1:]], variables, self.work)

    def check_left_nothing(self) -> None:
        """Check that ContextRender's own folder has no lease of the run."""
        leases = self.folder / "data" / "leases"
        assert list(leases.iterdir()) == []


def check_recorded(read: Callable[[Path, AuditInput], None], home: Path) -> None:
    """Check the run as `audit` reads it: each call once with its usage, and results in order."""
    audit_input = AuditInput()
    read(home, audit_input)
    counts = audit_input.counts
    assert not counts["damaged lines"] and not counts["unknown lines"], counts
    (run,) = audit_input.merge_copies().runs
    answers = [message for message in run.messages if message["role"] == "assistant"]
    assert len(answers) == len(hosts.steps())
    results = [str(message["content"]) for message in run.messages if message["role"] == "tool"]
    findings = [text for text in results if any(mark in text for mark in hosts.MARKS)]
    assert len(findings) == len(hosts.MARKS)
    assert all(mark in text for mark, text in zip(hosts.MARKS, findings, strict=True))
    call_ids = [call["id"] for message in answers for call in message.get("tool_calls") or ()]
    assert [m["tool_call_id"] for m in run.messages if m["role"] == "tool"] == call_ids
    assert run.counted_calls >= len(answers)
    assert all((row.uncached, row.output) == (9 * row.calls, 4 * row.calls) for row in run.usage)
    assert all(run.times) and run.times == sorted(run.times)
