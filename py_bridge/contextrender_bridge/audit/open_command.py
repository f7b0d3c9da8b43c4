"""Open sessions from files and say why they went wrong. No server takes part in it.

FILEs and FOLDERs hold sessions of Claude Code, Codex, opencode, pi, OpenClaw or Hermes, requests of
OpenAI's or Anthropic's API, JSON Lines runs, or exports of ContextRender. Without any, the newest
sessions that agents have left on this machine are listed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.command import READERS, homes
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.replay import run_of
from contextrender_bridge.audit.run_reader import Recorded
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.diagnosis import Diagnosis, diagnose
from contextrender_bridge.printing import add_json, print_json, printable

SHOWN = 20
"""Sessions that are shown unless --limit says otherwise."""
LOSSES = 10
"""Losses of a session that are shown one by one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender open`."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a file, or a folder")
    parser.add_argument(
        "--limit", type=int, default=SHOWN, metavar="N", help="newest sessions (%(default)s)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read the sessions and print a diagnosis of each."""
    found = AuditInput()
    for path in args.files:
        read_files(path, found)
    if not args.files:
        for name, folders in homes().items():
            for home in folders:
                READERS[name](home, found)
    sessions = sessions_of(found.settle().runs)[: max(args.limit, 1)]
    if not sessions:
        where = ", ".join(map(str, args.files)) or "the folders where agents keep theirs"
        raise CommandError(" ".join([f"there are no sessions in {where}.", *found.sentences]))
    told = [OpenedSession(runs) for runs in sessions]
    if args.json:
        return print_json(
            {"sessions": [one.to_json() for one in told], "unreadable": found.unreadable}
        )
    out = Console(highlight=False)
    for one in told:
        for line in one.lines(is_alone=len(told) == 1):
            out.print(line, soft_wrap=True, markup=False)
    for sentence in found.sentences:
        out.print(sentence, soft_wrap=True, markup=False)
    return 0


def sessions_of(runs: Sequence[Recorded]) -> list[list[Recorded]]:
    """Return the runs of each session together, the newest session first."""
    found: dict[tuple[str, str], list[Recorded]] = {}
    for one in runs:
        found.setdefault((one.source, one.task), []).append(one)
    return sorted(found.values(), key=_newest, reverse=True)


def _newest(runs: Sequence[Recorded]) -> float:
    times = [time for run in runs for time in (*run.times, *run.billed_at.values())]
    return max(times, default=0.0)


class OpenedSession:
    """A session and why it went wrong."""

    def __init__(self, runs: Sequence[Recorded]) -> None:
        self._runs = runs
        self.diagnosis: Diagnosis = diagnose([made for one in runs if (made := run_of(one))])

    def to_json(self) -> dict[str, Any]:
        """Return the session as plain values."""
        first = self._runs[0]
        return {
            "session": first.task,
            "source": first.source,
            "model": self.model,
            "about": self.about,
            "hidden_summaries": self.hidden_summaries,
            **self.diagnosis.to_json(),
        }

    @property
    def model(self) -> str:
        """The first model that is named."""
        return next((run.model for run in self._runs if run.model), "")

    @property
    def hidden_summaries(self) -> int:
        """Compactions whose summary the file does not have in words."""
        return sum(run.hides_summary for run in self._runs)

    @property
    def about(self) -> str:
        """The user's first words."""
        texts = (
            str(message.get("content") or "")
            for run in self._runs
            for message in run.messages
            if message["role"] == "user"
        )
        return printable(next((text for text in texts if not text.startswith("<")), ""), 60)

    def lines(self, *, is_alone: bool) -> list[str]:
        """Return the session in lines: what it is, the answer, and each loss if it `is_alone`."""
        first, newest = self._runs[0], _newest(self._runs)
        when = datetime.fromtimestamp(newest).strftime("%Y-%m-%d %H:%M") if newest else ""
        head = [first.source, printable(first.task, 40), when, self.about]
        answer = self.diagnosis.sentence
        if self.hidden_summaries:
            answer += " A summary in the file has no words, so what it kept is not known."
        said = [" · ".join(filter(None, head)), f"  {answer}"]
        if is_alone and len(self.diagnosis.losses) > 1:
            said += [f"  - {loss.sentence}" for loss in self.diagnosis.losses[:LOSSES]]
        return [printable_line(line) for line in said]


def printable_line(line: str) -> str:
    """Return a line without control characters, its indentation kept."""
    indent = len(line) - len(line.lstrip())
    return " " * indent + printable(line)
