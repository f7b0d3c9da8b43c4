"""Reads recorded runs for a replay: files of runs, and all that `contextrender audit` reads."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.files import agent_reader, read_files
from contextrender_bridge.audit.replay import is_sent_shortened, run_of
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.runs import SUFFIXES, Run, read_runs
from contextrender_bridge.evaluation.workers import show_waiting
from contextrender_bridge.printing import count_of, print_notice

RUN_FIELDS = frozenset({"id", "messages"})


def read_transcripts(paths: Iterable[Path], limit: int | None = None) -> list[Run]:
    """Return the runs in files and folders, in order, at most `limit` of them.

    Files other than files of runs, such as agents' sessions and request logs, are read as
    `contextrender audit` reads them. Raise CommandError if a path has no run, or if a file of runs
    has an invalid line.
    """
    runs: list[Run] = []
    with show_waiting("Reading runs"):
        for path in paths:
            if limit is None or len(runs) < limit:
                runs += read_runs([path], limit) if _has_runs(path) else _read_sessions(path)
    return runs[:limit]


def _has_runs(path: Path) -> bool:
    """Return whether a file is a file of runs (`evaluation.runs`), judging by its first line.

    Of a folder, judge the first file whose name may be a file of runs. If the line is not JSON,
    return True, so that reading the runs raises an error that names the line.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
        return bool(files) and _has_runs(files[0])
    if not path.name.endswith(SUFFIXES) or agent_reader(path):
        return False
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            value = json.loads(lines.readline())
    except (OSError, EOFError, ValueError, RecursionError):
        return True
    return isinstance(value, dict) and value.keys() >= RUN_FIELDS


def _read_sessions(path: Path) -> list[Run]:
    """Return the runs in agents' sessions, request logs and other files that `audit` reads.

    Leave out runs whose prompts were already shortened, and print how many there are. Raise
    CommandError if there are no other runs.
    """
    audit_input = AuditInput()
    read_files(path, audit_input)
    audit_input.merge_copies()
    full_runs = [run for run in audit_input.runs if not is_sent_shortened(run)]
    notes = []
    if shortened := len(audit_input.runs) - len(full_runs):
        left_out = f"{count_of(shortened, 'run')} in {path} left out"
        notes.append(f"{left_out}: `wrap` or the agent had already shortened the prompts.")
    runs = [run for recorded_run in full_runs if (run := run_of(recorded_run))]
    if not runs:
        sentences = [f"there are no runs to replay in {path}.", *notes, *audit_input.sentences]
        raise CommandError(" ".join(sentences))
    for note in notes:
        print_notice(note)
    return runs
