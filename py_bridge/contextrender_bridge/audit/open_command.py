"""Read sessions from files and report why they went wrong. No server is needed.

A FILE, or a folder of them, holds sessions of Claude Code, Codex, opencode, pi, OpenClaw or Hermes,
requests of OpenAI's or Anthropic's API, JSON Lines runs, or exports of ContextRender. Without FILE,
the newest sessions of agents on this machine are listed.
"""

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.command import read_input
from contextrender_bridge.audit.replay import run_of
from contextrender_bridge.audit.run_reader import RecordedRun
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.dialects.contents import plain_text
from contextrender_bridge.evaluation.diagnosis import diagnose
from contextrender_bridge.evaluation.tables import console
from contextrender_bridge.evaluation.workers import show_waiting
from contextrender_bridge.printing import add_count, add_json, print_json, printable

DEFAULT_SESSIONS = 20
"""The default of --limit."""
MAX_LOSSES = 10
"""The number of losses of a session that are listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender open`."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a file, or a folder")
    add_count(parser, "--limit", "show the N newest sessions (%(default)s)", DEFAULT_SESSIONS)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read the sessions and print a diagnosis of each, the newest first, at most `--limit`.

    Without files, read the sessions of all agents on this machine. Raise CommandError if there are
    no sessions.
    """
    with show_waiting("Reading sessions"):
        audit_input = read_input(args.files)
    sessions = sessions_of(audit_input.runs)[: max(args.limit, 1)]
    if not sessions:
        places = ", ".join(map(str, args.files)) or "the folders where agents keep theirs"
        raise CommandError(
            " ".join([f"there are no sessions in {places}.", *audit_input.sentences])
        )
    opened_sessions = [OpenedSession(runs) for runs in sessions]
    if args.json:
        rows = [session.to_json() for session in opened_sessions]
        return print_json({"sessions": rows, "unreadable": audit_input.unreadable})
    # A single session is printed with all its losses.
    is_alone = len(opened_sessions) == 1
    lines = [line for session in opened_sessions for line in session.lines(is_alone=is_alone)]
    out = console()
    for line in [*lines, *audit_input.sentences]:
        out.print(line, soft_wrap=True, markup=False)
    return 0


def sessions_of(runs: Sequence[RecordedRun]) -> list[list[RecordedRun]]:
    """Return a list of runs for each session, the newest session first.

    The session of an agent's run is its `task`.
    """
    runs_by_session: dict[tuple[str, str], list[RecordedRun]] = {}
    for run in runs:
        runs_by_session.setdefault((run.source, run.task), []).append(run)
    return sorted(runs_by_session.values(), key=_newest_time, reverse=True)


def _newest_time(runs: Sequence[RecordedRun]) -> float:
    """Return the Unix second of the newest message or call; 0 if no time is known."""
    times = [time for run in runs for time in (*run.times, *run.billed_at.values())]
    return max(times, default=0.0)


class OpenedSession:
    """A session and the diagnosis of why it went wrong."""

    def __init__(self, runs: Sequence[RecordedRun]) -> None:
        """Diagnose the session that these runs are. Runs with invalid messages are left out."""
        self.runs = runs
        self.diagnosis = diagnose([run for run in map(run_of, runs) if run])

    def to_json(self) -> dict[str, Any]:
        """Return the session as plain values."""
        first = self.runs[0]
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
        """The first model that a run names; empty if none does."""
        return next((run.model for run in self.runs if run.model), "")

    @property
    def hidden_summaries(self) -> int:
        """The number of compactions whose summary the file does not have as text."""
        return sum(run.hides_summary for run in self.runs)

    @property
    def about(self) -> str:
        """The first 60 characters of the first user message that does not begin with `<`."""
        texts = (
            plain_text(message.get("content"))
            for run in self.runs
            for message in run.messages
            if message["role"] == "user"
        )
        return printable(next((text for text in texts if not text.startswith("<")), ""), 60)

    def lines(self, *, is_alone: bool) -> list[str]:
        """Return the lines to print: the session, then its diagnosis.

        `is_alone` means that no other session is printed. Then a line for each loss follows, up to
        `MAX_LOSSES`.
        """
        first, second = self.runs[0], _newest_time(self.runs)
        date = datetime.fromtimestamp(second).strftime("%Y-%m-%d %H:%M") if second else ""
        head = [first.source, printable(first.task, 40), date, self.about]
        diagnosis = self.diagnosis.sentence
        if self.hidden_summaries:
            diagnosis += (
                " The file has a summary only in encrypted form, so its contents are unknown."
            )
        lines = [printable(" · ".join(filter(None, head))), f"  {printable(diagnosis)}"]
        if is_alone and len(self.diagnosis.losses) > 1:
            losses = self.diagnosis.losses[:MAX_LOSSES]
            lines += [f"  {printable(f'- {loss.sentence}')}" for loss in losses]
        return lines
