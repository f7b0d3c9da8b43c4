"""Codex's sessions: `sessions/Y/M/D/rollout-*.jsonl`, compressed with zstd when they are old.

Items are those of the Responses API. A spawned child's file begins with a copy of its parent's
history, and so does a fork's, whose copy has new times. A compaction's record has the history that
goes on after it; the summary in it may be encrypted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import Recorded, items, mapping, second_of
from contextrender_bridge.base.model_table import rated
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import usage_of
from contextrender_bridge.base.wire import Json

SOURCE = "Codex"
SKIPPED = frozenset({"world_state", "inter_agent_communication_metadata", "ghost_snapshot"})
SUFFIXES = (".jsonl", ".jsonl.zst")
COPY_SECONDS = 5.0
"""A fork copies its parent's records within so many seconds of its beginning."""


@dataclass
class Count:
    """One record of a model call's usage. `figures` are equal in a copy."""

    run: Recorded
    usage: Usage | None
    figures: str
    time: float
    key: str = ""


@dataclass
class Rollout:
    """One session file."""

    path: Path
    id: str = ""
    parent: str = ""
    started: float = 0.0
    runs: list[Recorded] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)


def read_codex(home: Path, found: AuditInput) -> None:
    """Read every session below `home`, Codex's own folder."""
    read_rollouts(
        [
            path
            for folder in ("sessions", "archived_sessions")
            for path in found.files(home / folder, is_session=_is_rollout)
        ],
        found,
    )


def read_rollouts(paths: Sequence[Path], found: AuditInput) -> None:
    """Read session files, which may be copies and forks of one another."""
    rollouts = [_read(path, found) for path in paths]
    known: dict[str, list[Count]] = {}
    for rollout in _parents_first(rollouts):
        copied = known.get(rollout.id) or known.get(rollout.parent) or []
        _name_counts(rollout, copied, is_same=rollout.id in known)
        if len(rollout.counts) > len(known.get(rollout.id, ())):
            known[rollout.id] = rollout.counts
        if rollout.parent and rollout.parent not in known:
            # The parent's file is gone. What this fork copied stands for it.
            known[rollout.parent] = [count for count in rollout.counts if _is_early(count, rollout)]
        for count in rollout.counts:
            found.bill(count.run, count.key, count.usage, count.time)
        for run in rollout.runs:
            found.keep(run)


def _is_rollout(name: str) -> bool:
    return name.startswith("rollout-") and name.endswith(SUFFIXES)


def _parents_first(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return each file behind that of its parent, and of a session's files the longest first."""
    by_id: dict[str, list[Rollout]] = {}
    for rollout in sorted(rollouts, key=lambda one: (-len(one.counts), str(one.path))):
        by_id.setdefault(rollout.id, []).append(rollout)
    found: dict[str, list[Rollout]] = {}

    def add(id: str, above: tuple[str, ...]) -> None:
        if id in found or id in above or id not in by_id:
            return
        for rollout in by_id[id]:
            add(rollout.parent, (*above, id))
        found[id] = by_id[id]

    for id in sorted(by_id):
        add(id, ())
    return [rollout for id in found for rollout in found[id]]


def _name_counts(rollout: Rollout, earlier: Sequence[Count], *, is_same: bool) -> None:
    """Give each count a key: that of its original, as long as the file repeats another's."""
    is_copy = True
    for number, count in enumerate(rollout.counts):
        original = earlier[number] if number < len(earlier) else None
        is_copy = (
            is_copy
            and original is not None
            and original.figures == count.figures
            and (is_same or count.time == original.time or _is_early(count, rollout))
        )
        own = f"codex {rollout.path} {number}"
        count.key = original.key if is_copy and original is not None else own


def _is_early(count: Count, rollout: Rollout) -> bool:
    """Return whether a count may have been copied when the fork began."""
    return not (count.time and rollout.started) or count.time - rollout.started <= COPY_SECONDS


def _read(path: Path, found: AuditInput) -> Rollout:
    stem = path.name.split(".jsonl")[0]
    rollout = Rollout(path, stem)
    model, tier, copied, is_recorded = "", "", 0, False
    seen: set[str] = set()
    run = Recorded(f"{stem}#1", SOURCE, stem)
    for ordinal, record in enumerate(found.lines(path), 1):
        kind, payload = record.get("type"), dict(mapping(record.get("payload")))
        time = second_of(record.get("timestamp"))
        if kind == "session_meta":
            copied = _read_meta(rollout, payload, time) or copied
        elif kind == "turn_context":
            model = str(payload.get("model") or model)
            tier = str(payload.get("service_tier") or "")
        elif kind == "response_item":
            run.add("responses", payload, time)
        elif kind == "compacted":
            rollout.runs.append(run)
            run = run.compacted()
            _add_compacted(run, payload, time)
        elif kind == "token_usage_record" or payload.get("type") == "token_usage_record":
            is_recorded = True
            if ordinal > copied:
                rollout.counts.append(_count(run, payload, model, tier, time))
        elif kind == "event_msg":
            if payload.get("type") == "token_count" and not is_recorded and ordinal > copied:
                count = _count(run, payload, model, tier, time)
                if count.figures not in seen:  # a count is repeated when nothing was called
                    rollout.counts.append(count)
                seen.add(count.figures)
        elif kind not in SKIPPED:
            found.unknown()
    rollout.runs.append(run)
    return rollout


def _read_meta(rollout: Rollout, payload: Json, time: float) -> int:
    """Take the file's own head, then that of its parent, which older forks copy behind it."""
    id = str(payload.get("id") or "")
    if not rollout.started and not rollout.parent:
        rollout.id = id or rollout.id
        rollout.parent = str(payload.get("forked_from_id") or "")
        rollout.started = time
        start = payload.get("subagent_history_start_ordinal")
        return start if isinstance(start, int) else 0
    if id and id != rollout.id:
        rollout.parent = rollout.parent or id
    return 0


def _add_compacted(run: Recorded, payload: Json, time: float) -> None:
    history = items(payload.get("replacement_history"))
    for item in history:
        run.add("responses", item, time)
    summary = payload.get("message")
    if summary:
        run.add("chat", {"role": "user", "content": str(summary)}, time)
    run.hides_summary = not summary and not any(_is_summary(item) for item in history)


def _is_summary(item: object) -> bool:
    """Return whether an item of the history after a compaction tells its summary in words."""
    told = mapping(item)
    if told.get("type") in ("compaction", "compaction_summary", "context_compaction"):
        return False
    texts = [str(mapping(part).get("text") or "") for part in items(told.get("content"))]
    return any(SUMMARY_HEAD in text for text in texts)


SUMMARY_HEAD = "produced a summary of its thinking process"
"""How the message with Codex's summary begins."""


def _count(
    run: Recorded, payload: Mapping[str, object], model: str, tier: str, time: float
) -> Count:
    told = mapping(payload.get("info")) or payload
    used = mapping(told.get("last_token_usage") or told.get("usage") or told)
    cached = {"cached_tokens": used.get("cached_input_tokens", 0)}
    name = str(told.get("model") or model)
    usage = usage_of(name, {**used, "input_tokens_details": cached})
    if usage is not None:
        tier = str(told.get("service_tier") or tier)
        usage = replace(usage, model=rated(usage.model, usage.prompt, {"service_tier": tier}))
    total = mapping(told.get("total_token_usage"))
    id = str(payload.get("response_id") or told.get("response_id") or "")
    return Count(run, usage, f"{id} {sorted(total.items())} {sorted(used.items())}", time)
