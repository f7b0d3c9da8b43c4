"""Reads Codex's sessions: `sessions/Y/M/D/rollout-*.jsonl`; old ones are compressed with zstd.

Messages are items of the Responses API. The file of a subagent or a fork begins with a copy of its
parent's history. In a fork, the copied records have new times. A compaction's record has the
history that replaces the earlier one, in which the summary may be encrypted. Long because each
release of Codex has records of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import RecordedRun, items, mapping, second_of
from contextrender_bridge.base.model_table import add_rates
from contextrender_bridge.base.rates import TOOL_ITEMS
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import tool_items_in, usage_of
from contextrender_bridge.base.wire import Json

SOURCE = "Codex"
SKIPPED = frozenset({"world_state", "inter_agent_communication_metadata", "ghost_snapshot"})
SUFFIXES = (".jsonl", ".jsonl.zst")
COPY_SECONDS = 5.0
"""A fork copies its parent's records within this many seconds of its beginning."""


@dataclass
class CallCount:
    """A record of one model call's token counts.

    `figures` are the response's id and all counts, which are equal in every copy of the record.
    Records with the same `key` are of one call.
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

    Releases before June 2025 kept sessions as JSON, without usage. Such files are named.
    """
    rollouts = [
        path
        for folder in ("sessions", "archived_sessions")
        for path in audit_input.files(home / folder, is_session=_is_rollout)
    ]
    read_rollouts([path for path in rollouts if path.suffix != ".json"], audit_input)
    for path in rollouts:
        if path.suffix == ".json":
            audit_input.counts["files"] += 1
            audit_input.cannot_read(path, "a format of Codex's without usage")


def read_rollouts(paths: Sequence[Path], audit_input: AuditInput) -> None:
    """Read session files, of which some may be copies or forks of others.

    Parents are read before their forks. The usage that a file copied from another one gets the keys
    of the original, so that each call is counted once.
    """
    rollouts = [_read(path, audit_input) for path in paths]
    counts_by_id: dict[str, list[CallCount]] = {}
    for rollout in _parents_first(rollouts):
        originals = counts_by_id.get(rollout.id) or counts_by_id.get(rollout.parent) or []
        _set_keys(rollout, originals, is_same_session=rollout.id in counts_by_id)
        if len(rollout.counts) > len(counts_by_id.get(rollout.id, ())):
            counts_by_id[rollout.id] = rollout.counts
        if rollout.parent and rollout.parent not in counts_by_id:
            # The parent's file no longer exists: use the part that this fork copied from it.
            counts_by_id[rollout.parent] = [
                count for count in rollout.counts if _is_early(count, rollout)
            ]
        for count in rollout.counts:
            audit_input.add_usage(count.run, count.key, count.usage, count.time)
        for run in rollout.runs:
            audit_input.add_run(run)


def _is_rollout(name: str) -> bool:
    return name.startswith("rollout-") and name.endswith((*SUFFIXES, ".json"))


def _parents_first(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return the files, each after its parent's, and a session's longest file first."""
    by_id: dict[str, list[Rollout]] = {}
    for rollout in sorted(rollouts, key=lambda rollout: (-len(rollout.counts), str(rollout.path))):
        by_id.setdefault(rollout.id, []).append(rollout)
    ordered: dict[str, list[Rollout]] = {}

    def add(id: str, children: tuple[str, ...]) -> None:
        """Add the files of the session `id` to `ordered`, after those of its parents.

        `children` are the sessions that led to `id`. A session among them is its own ancestor.
        """
        is_cycle = id in children
        if id in ordered or is_cycle or id not in by_id:
            return
        for rollout in by_id[id]:
            add(rollout.parent, (*children, id))
        ordered[id] = by_id[id]

    for id in sorted(by_id):
        add(id, ())
    return [rollout for files in ordered.values() for rollout in files]


def _set_keys(rollout: Rollout, originals: Sequence[CallCount], *, is_same_session: bool) -> None:
    """Give each count a key. The first counts, as far as they are copies, get the originals' keys.

    The originals are from another file of the same session, or from the parent's file.
    """
    copied = 0
    for original, count in zip(originals, rollout.counts, strict=False):
        has_copied_time = count.time == original.time or _is_early(count, rollout)
        if original.figures != count.figures or not (is_same_session or has_copied_time):
            break
        count.key = original.key
        copied += 1
    for number, count in enumerate(rollout.counts[copied:], copied):
        count.key = f"codex {rollout.path} {number}"


def _is_early(count: CallCount, rollout: Rollout) -> bool:
    """Return whether a count may be a copy from the parent, judging by its time.

    A fork's file begins with copies of its parent's records, which have the time of the copying. If
    a time is unknown, the count may be a copy.
    """
    return not (count.time and rollout.started) or count.time - rollout.started <= COPY_SECONDS


def _read(path: Path, audit_input: AuditInput) -> Rollout:
    """Return a session file's runs and counts, without the counts that it copies from its parent.

    A file may have both usage records and token counts of the same calls. After its first usage
    record, token counts are ignored.
    """
    stem = path.name.split(".jsonl")[0]
    rollout = Rollout(path, stem)
    model, tier = "", ""
    copied_records, has_usage_records = 0, False
    seen_figures: set[str] = set()
    run = RecordedRun(f"{stem}#1", SOURCE, stem)
    tool_items: Counter[str] = Counter()
    for ordinal, record in enumerate(audit_input.lines(path), 1):
        kind, payload = record.get("type"), dict(mapping(record.get("payload")))
        time = second_of(record.get("timestamp"))
        if kind == "session_meta":
            copied_records = _read_meta(rollout, payload, time) or copied_records
        elif kind == "turn_context":
            model = str(payload.get("model") or model)
            tier = str(payload.get("service_tier") or "")
        elif kind == "response_item":
            run.add("responses", payload, time)
            tool_items.update(tool_items_in({"output": [payload]}))
        elif kind == "compacted":
            rollout.runs.append(run)
            run = run.next_after_compaction()
            _add_compacted(run, payload, time)
        elif kind == "token_usage_record" or payload.get("type") == "token_usage_record":
            has_usage_records = True
            if ordinal > copied_records:
                rollout.counts.append(_read_count(run, payload, model, tier, time, tool_items))
            tool_items.clear()
        elif kind == "event_msg":
            is_count = payload.get("type") == "token_count" and not has_usage_records
            # Without `info`, the event has only the account's rate limits.
            is_count = is_count and payload.get("info", payload) is not None
            if is_count and ordinal > copied_records:
                count = _read_count(run, payload, model, tier, time, tool_items)
                if count.figures not in seen_figures:  # a repeated count is of no new call
                    rollout.counts.append(count)
                seen_figures.add(count.figures)
            if is_count:
                tool_items.clear()
        elif kind not in SKIPPED:
            audit_input.count_unknown()
    rollout.runs.append(run)
    return rollout


def _read_meta(rollout: Rollout, payload: Json, time: float) -> int:
    """Read a file's own header, or the copy of its parent's header that older forks have after it.

    Return the number of records that are copies of the parent's; 0 if the header does not have it.
    """
    id = str(payload.get("id") or "")
    is_first_header = not rollout.started and not rollout.parent
    if is_first_header:
        rollout.id = id or rollout.id
        rollout.parent = str(payload.get("forked_from_id") or "")
        rollout.started = time
        start = payload.get("subagent_history_start_ordinal")
        return start if isinstance(start, int) else 0
    if id and id != rollout.id:  # the copy of the parent's header
        rollout.parent = rollout.parent or id
    return 0


def _add_compacted(run: RecordedRun, payload: Json, time: float) -> None:
    """Add the history that replaces the earlier one, and record whether its summary is readable."""
    history = items(payload.get("replacement_history"))
    for item in history:
        run.add("responses", item, time)
    summary = payload.get("message")
    if summary:
        run.add("chat", {"role": "user", "content": str(summary)}, time)
    run.hides_summary = not summary and not any(_is_summary(item) for item in history)


def _is_summary(item: object) -> bool:
    """Return whether an item of the history after a compaction has the summary as text."""
    fields = mapping(item)
    if fields.get("type") in ("compaction", "compaction_summary", "context_compaction"):
        return False
    texts = [str(mapping(part).get("text") or "") for part in items(fields.get("content"))]
    return any(SUMMARY_HEAD in text for text in texts)


SUMMARY_HEAD = "produced a summary of its thinking process"
"""Words in the message that has Codex's summary."""


def _read_count(
    run: RecordedRun,
    payload: Mapping[str, object],
    model: str,
    tier: str,
    time: float,
    tool_items: Mapping[str, int],
) -> CallCount:
    """Return the token counts of a record.

    `model` and `tier` are used if the record does not name its own. `tool_items` counts the items
    of the call by their type.
    """
    info = mapping(payload.get("info")) or payload
    call_usage = mapping(info.get("last_token_usage") or info.get("usage") or info)
    name = str(info.get("model") or model)
    usage = usage_of(name, call_usage)
    if usage is not None:
        tier = str(info.get("service_tier") or tier)
        rate_fields = {"service_tier": tier, TOOL_ITEMS: dict(tool_items)}
        usage = replace(usage, model=add_rates(usage.model, usage.prompt, rate_fields))
    session_usage = mapping(info.get("total_token_usage"))
    id = str(payload.get("response_id") or info.get("response_id") or "")
    # A text by which copies of the record are recognised.
    figures = f"{id} {sorted(session_usage.items())} {sorted(call_usage.items())}"
    return CallCount(run, usage, figures, time)
