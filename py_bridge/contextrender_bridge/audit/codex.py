"""Reads Codex's sessions: `sessions/Y/M/D/rollout-*.jsonl`; old ones are compressed with zstd.

Messages are items of the Responses API. The file of a subagent or a fork begins with a copy of its
parent's history. In a fork, the copied records have new times. A compaction's record has the
history that replaces the earlier one, in which the summary may be encrypted. Long because each
release of Codex has records of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import RecordedRun, items, mapping, second_of
from contextrender_bridge.base.model_table import TOOL_ITEMS, add_rates
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import count_of, tool_items_in, usage_of
from contextrender_bridge.base.wire import Json

SOURCE = "Codex"
SKIPPED = frozenset({"world_state", "inter_agent_communication_metadata", "ghost_snapshot"})
SESSIONS = ("rollout-*.jsonl", "rollout-*.jsonl.zst", "rollout-*.json")
COPY_SECONDS = 5.0
"""A fork copies its parent's records within this many seconds of its beginning."""
SUMMARY_HEAD = "produced a summary of its thinking process"
"""Words in the message that has Codex's summary."""


@dataclass
class CallCount:
    """The token counts of one model call, from one record of a file.

    `figures` is a text with the response's id and all counts, by which copies of the record are
    found: it is equal in every copy. Counts with the same `key` are of one call.
    """

    run: RecordedRun
    usage: Usage | None
    figures: str
    time: float
    key: str = ""


@dataclass
class Rollout:
    """One session file. `parent` is the id of the session that it was forked from."""

    path: Path
    id: str = ""
    parent: str = ""
    started: float = 0.0
    runs: list[RecordedRun] = field(default_factory=list)
    counts: list[CallCount] = field(default_factory=list)


def read_codex(home: Path, audit_input: AuditInput) -> None:
    """Read every session below `home`, Codex's own folder.

    Releases before June 2025 kept sessions as JSON, without usage. Such files are reported as
    unreadable.
    """
    rollouts = [
        path
        for folder in ("sessions", "archived_sessions")
        for path in audit_input.files(home / folder, *SESSIONS)
    ]
    read_rollouts([path for path in rollouts if path.suffix != ".json"], audit_input)
    for path in rollouts:
        if path.suffix == ".json":
            audit_input.counts["files"] += 1
            audit_input.cannot_read(path, "a format of Codex's without usage")


def read_rollouts(paths: Sequence[Path], audit_input: AuditInput) -> None:
    """Add the runs and the usage of session files, of which some may be copies or forks of others.

    If a file has copies of another file's token counts, the copies get the keys of the originals,
    so that each call is counted once. Therefore parents are handled before their forks.
    """
    rollouts = [_RolloutReader(path, audit_input).read() for path in paths]
    counts_by_session: dict[str, list[CallCount]] = {}
    for rollout in _parents_first(rollouts):
        # The originals are in an earlier file of the same session, otherwise in the parent's file.
        is_same_session = rollout.id in counts_by_session
        earlier_counts = counts_by_session.get(rollout.id, [])
        originals = earlier_counts or counts_by_session.get(rollout.parent, [])
        _set_keys(rollout, originals, is_same_session=is_same_session)
        # The session's next files, and forks of it, are compared with its longest file.
        if len(rollout.counts) > len(earlier_counts):
            counts_by_session[rollout.id] = rollout.counts
        if rollout.parent and rollout.parent not in counts_by_session:
            # The parent's file no longer exists. So the parent's other forks are compared with the
            # counts that this fork copied from it.
            counts_by_session[rollout.parent] = [
                count for count in rollout.counts if _has_copy_time(count, rollout)
            ]
        for count in rollout.counts:
            audit_input.add_usage(count.run, count.key, count.usage, count.time)
        for run in rollout.runs:
            audit_input.add_run(run)


def _parents_first(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return the files in an order in which each comes after the files of its parent session.

    Of the files of one session, the longest comes first. If a session is its own ancestor, any
    order of these sessions may be returned.
    """
    # Group the files by session, the longest file of each session first.
    by_session: dict[str, list[Rollout]] = {}
    for rollout in sorted(rollouts, key=lambda rollout: (-len(rollout.counts), str(rollout.path))):
        by_session.setdefault(rollout.id, []).append(rollout)
    # Add each session after its ancestors. A dict keeps the order of insertion.
    ordered: dict[str, list[Rollout]] = {}

    def add(session: str, descendants: tuple[str, ...]) -> None:
        """Add the files of a session to `ordered`, after the files of its ancestors.

        `descendants` are the sessions that led here. They show whether it is its own ancestor.
        """
        is_own_ancestor = session in descendants
        if session in ordered or is_own_ancestor or session not in by_session:
            return
        for rollout in by_session[session]:
            add(rollout.parent, (*descendants, session))
        ordered[session] = by_session[session]

    for session in sorted(by_session):
        add(session, ())
    return [rollout for files in ordered.values() for rollout in files]


def _set_keys(rollout: Rollout, originals: Sequence[CallCount], *, is_same_session: bool) -> None:
    """Give each count a key. Copies at the beginning get the keys of their originals.

    The other counts get new keys. The originals are from another file of the same session, or from
    the parent's file. A copy has the same figures. In a fork, its time must also be the original's,
    or the time at which the fork began.
    """
    copied_count = 0
    for original, count in zip(originals, rollout.counts, strict=False):
        has_copied_time = count.time == original.time or _has_copy_time(count, rollout)
        has_same_figures = count.figures == original.figures
        is_copy = has_same_figures and (is_same_session or has_copied_time)
        if not is_copy:
            break
        count.key = original.key
        copied_count += 1
    for number, count in enumerate(rollout.counts[copied_count:], copied_count):
        count.key = f"codex {rollout.path} {number}"


def _has_copy_time(count: CallCount, rollout: Rollout) -> bool:
    """Return whether a count may be a copy from the parent's file, judging by its time.

    A fork copies its parent's records when it begins, and they get the time of the copying. So a
    copy's time is close to the beginning of the file. Return True if one of the times is unknown.
    """
    has_times = count.time and rollout.started
    return not has_times or count.time - rollout.started <= COPY_SECONDS


class _RolloutReader:
    """The state of reading one session file, record by record."""

    def __init__(self, path: Path, audit_input: AuditInput) -> None:
        """Prepare to read the file `path`. Lines are counted in `audit_input`."""
        stem = path.name.split(".jsonl")[0]
        self._audit_input = audit_input
        self._rollout = Rollout(path, stem)
        self._run = RecordedRun(f"{stem}#1", SOURCE, stem)
        self._model = self._tier = ""
        # The number of copied records at the start of the file, if the file has this number.
        self._copied_records = 0
        self._has_usage_records = False
        self._seen_figures: set[str] = set()
        # The usage of the session so far, from the last record that has it.
        self._session_usage: Mapping[str, object] = {}
        # The number of items of each type in the current call, because some tools have a price.
        self._tool_items: Counter[str] = Counter()

    def read(self) -> Rollout:
        """Read the file, and return its runs and counts.

        Counts that are known to be copied from the parent are left out.
        """
        for number, record in enumerate(self._audit_input.lines(self._rollout.path), 1):
            self._read_record(record, is_copy=number <= self._copied_records)
        self._rollout.runs.append(self._run)
        return self._rollout

    def _read_record(self, record: Json, *, is_copy: bool) -> None:
        """Add what one record has to the file's current run or to its counts.

        `is_copy` means that the record is known to be copied from the parent's file.
        """
        kind, payload = record.get("type"), dict(mapping(record.get("payload")))
        time = second_of(record.get("timestamp"))
        if kind == "session_meta":
            self._read_header(payload, time)
        elif kind == "turn_context":  # the settings of the next calls
            self._model = str(payload.get("model") or self._model)
            self._tier = str(payload.get("service_tier") or "")
        elif kind == "response_item":
            self._run.add("responses", payload, time)
            self._tool_items.update(tool_items_in({"output": [payload]}))
        elif kind == "compacted":
            # The run ends. The next one begins with the history that replaces it.
            self._rollout.runs.append(self._run)
            self._run = self._run.next_after_compaction()
            _add_compacted(self._run, payload, time)
        elif kind == "token_usage_record" or payload.get("type") == "token_usage_record":
            self._has_usage_records = True
            count = self._read_count(payload, time)
            if not is_copy:
                self._rollout.counts.append(count)
        elif kind == "event_msg":
            # Early releases have only these events. If the file has usage records, too, the events
            # repeat their counts and are ignored. If `info` is null, the event has only the
            # account's rate limits.
            is_token_count = payload.get("type") == "token_count" and not self._has_usage_records
            if is_token_count and payload.get("info", payload) is not None:
                count = self._read_count(payload, time)
                # An event may be sent again without a new call.
                is_repeated = count.figures in self._seen_figures
                if not is_copy and not is_repeated:
                    self._rollout.counts.append(count)
                    self._seen_figures.add(count.figures)
        elif kind not in SKIPPED:
            self._audit_input.count_unknown()

    def _read_header(self, payload: Json, time: float) -> None:
        """Read a header: the file's own header, which is the first, or a copy of the parent's.

        Older forks do not name their parent in their own header, but have a copy of its header.
        """
        id, rollout = str(payload.get("id") or ""), self._rollout
        is_own_header = not rollout.started and not rollout.parent
        if is_own_header:
            rollout.id = id or rollout.id
            rollout.parent = str(payload.get("forked_from_id") or "")
            rollout.started = time
            copied_records = payload.get("subagent_history_start_ordinal")
            if isinstance(copied_records, int):
                self._copied_records = copied_records
        elif id and id != rollout.id:
            rollout.parent = rollout.parent or id

    def _read_count(self, payload: Mapping[str, object], time: float) -> CallCount:
        """Return the token counts in a record, which ends a model call.

        Begin to count the next call's tool items. If the record does not name the call's model or
        service tier, the session's are used.
        """
        info = mapping(payload.get("info")) or payload
        session_usage, call_usage = _usage_fields(info)
        # Copies of the record have the same figures.
        id = str(payload.get("response_id") or info.get("response_id") or "")
        figures = f"{id} {sorted(session_usage.items())} {sorted(call_usage.items())}"
        # Early releases record only the sum of the session. Then subtract the previous sum.
        call_usage = call_usage or self._added_usage(session_usage)
        usage = usage_of(str(info.get("model") or self._model), call_usage)
        if usage is not None:
            # The model's name also gets what changes the price: the tier, and the tools' calls.
            tier = str(info.get("service_tier") or self._tier)
            rate_fields = {"service_tier": tier, TOOL_ITEMS: dict(self._tool_items)}
            usage = replace(usage, model=add_rates(usage.model, usage.prompt, rate_fields))
        self._session_usage = session_usage or self._session_usage
        self._tool_items.clear()
        return CallCount(self._run, usage, figures, time)

    def _added_usage(self, session_usage: Mapping[str, object]) -> dict[str, int]:
        """Return how much larger the session's usage is than in the record before.

        If a count is smaller than before, the session started to count from zero, so the whole
        usage is returned.
        """
        counts = {name: count_of(value) or 0 for name, value in session_usage.items()}
        before = {name: count_of(self._session_usage.get(name)) or 0 for name in counts}
        if any(counts[name] < before[name] for name in counts):
            return counts
        return {name: counts[name] - before[name] for name in counts}


def _usage_fields(info: Mapping[str, object]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the session's usage and the call's usage in a record. Both are empty if missing."""
    session_usage = mapping(info.get("total_token_usage"))
    call_usage = info.get("last_token_usage") or info.get("usage")
    if not call_usage and not session_usage:
        call_usage = info  # the counts are in the record itself
    return session_usage, mapping(call_usage)


def _add_compacted(run: RecordedRun, payload: Json, time: float) -> None:
    """Add the messages with which a run begins after a compaction, from the compaction's record.

    Set `run.hides_summary` if the record does not have the summary as text.
    """
    history = items(payload.get("replacement_history"))
    for item in history:
        run.add("responses", item, time)
    summary = payload.get("message")
    if summary:
        run.add("chat", {"role": "user", "content": str(summary)}, time)
    run.hides_summary = not summary and not any(_is_summary(item) for item in history)


def _is_summary(item: object) -> bool:
    """Return whether an item of a request has a compaction's summary as readable text."""
    fields = mapping(item)
    if fields.get("type") in ("compaction", "compaction_summary", "context_compaction"):
        return False  # it is encrypted
    texts = [str(mapping(part).get("text") or "") for part in items(fields.get("content"))]
    return any(SUMMARY_HEAD in text for text in texts)
