"""Codex's sessions: `sessions/Y/M/D/rollout-*.jsonl`.

Items are those of the Responses API. A spawned child's file begins with a copy of its parent's
history; a compaction's record has the history that goes on after it.
"""

from __future__ import annotations

from pathlib import Path

from contextrender_bridge.audit.run_reader import AuditInput, Recorded, items, mapping, second_of
from contextrender_bridge.base.usage import usage_of
from contextrender_bridge.base.wire import Json

SOURCE = "Codex"
SKIPPED = frozenset({"world_state", "inter_agent_communication_metadata", "ghost_snapshot"})


def read_codex(home: Path, found: AuditInput) -> None:
    """Every session below `home`, Codex's own folder."""
    for folder in ("sessions", "archived_sessions"):
        for path in sorted((home / folder).rglob("rollout-*.jsonl")):
            _read(path, found)


def _read(path: Path, found: AuditInput) -> None:
    model, copied, recorded = "", 0, False
    run = Recorded(f"{path.stem}#1", SOURCE, path.stem)
    for ordinal, record in enumerate(found.lines(path), 1):
        kind, payload = record.get("type"), dict(mapping(record.get("payload")))
        time = second_of(record.get("timestamp"))
        if kind == "session_meta":
            start = payload.get("subagent_history_start_ordinal")
            copied = start if isinstance(start, int) else 0
        elif kind == "turn_context":
            model = str(payload.get("model") or model)
        elif kind == "response_item":
            run.add("responses", payload, time)
        elif kind == "compacted":
            found.keep(run)
            run = run.compacted()
            for item in items(payload.get("replacement_history")):
                run.add("responses", item, time)
            if summary := payload.get("message"):
                run.add("chat", {"role": "user", "content": str(summary)}, time)
        elif kind == "token_usage_record" or payload.get("type") == "token_usage_record":
            recorded = True
            if ordinal > copied:
                _bill(run, f"{path}:{ordinal}", payload, model, time, found)
        elif kind == "event_msg":
            if payload.get("type") == "token_count" and not recorded and ordinal > copied:
                _bill(run, _count_id(path, payload), payload, model, time, found)
        elif kind not in SKIPPED:
            found.unknown()
    found.keep(run)


def _bill(
    run: Recorded, id: str, payload: Json, model: str, time: float, found: AuditInput
) -> None:
    told = mapping(payload.get("info")) or payload
    used = mapping(told.get("last_token_usage") or told.get("usage") or told)
    cached = {"cached_tokens": used.get("cached_input_tokens", 0)}
    told_model = str(told.get("model") or model)
    found.bill(run, id, usage_of(told_model, {**used, "input_tokens_details": cached}), time)


def _count_id(path: Path, payload: Json) -> str:
    """The same for a count that is repeated."""
    total = mapping(mapping(payload.get("info")).get("total_token_usage"))
    return f"{path}:{sorted(total.items())}"
