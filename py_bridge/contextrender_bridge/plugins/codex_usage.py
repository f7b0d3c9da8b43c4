"""Codex's Stop hook: it reports the usage of the first call after each compaction.

Codex runs it after each turn of the agent. So it loads other libraries only if there is something
to report.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from contextrender_bridge.base.compaction_mark import CompactedBranch, find_compaction

REPORT_SECONDS: Final = 1.0
USAGE_RECORD: Final = "token_usage_record"
RECORDS: Final = (USAGE_RECORD, "compacted", "developer")
"""Words of the lines that are read. A session's other lines, such as results, may be long."""


def main(words: Sequence[str]) -> None:
    """Handle the JSON event on standard input. `words` has the data folder.

    A failure is ignored, because Codex does not need the report.
    """
    with suppress(Exception):
        event = json.load(sys.stdin)
        with Path(event["transcript_path"]).open(encoding="utf-8") as lines:
            calls = list(read_calls_after_compactions(lines, event["turn_id"]))
        for replaced, usage in calls:
            report_usage(Path(words[0]), event, replaced, usage)


def read_calls_after_compactions(
    lines: Iterable[str], turn: str
) -> Iterator[tuple[CompactedBranch, dict[str, Any]]]:
    """Find the first call after each compaction text of the plugin.

    Yield which messages the text replaced, and Codex's token counts of the call. `lines` are the
    lines of the session's file. Yield only calls of the turn with the id `turn`, because the calls
    of earlier turns have been reported.
    """
    # The messages that the last text replaced; None if the call after the text was found already.
    replaced = None
    for line in lines:
        if not any(word in line for word in RECORDS):
            continue  # Parsing the other lines would be slow.
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        kind, payload = entry.get("type"), entry.get("payload") or {}
        if kind == "response_item" and payload.get("role") == "developer":
            # The plugin's text is a developer message, which names the messages that it replaces.
            replaced = _find_replaced(payload.get("content") or []) or replaced
        elif kind == "compacted":
            replaced = None  # The plugin's text, if there is one, comes after this record.
        elif kind == USAGE_RECORD and replaced:
            if payload.get("turn_id") == turn:
                yield replaced, payload["usage"]
            replaced = None


def _find_replaced(content: Sequence[Mapping[str, Any]]) -> CompactedBranch | None:
    """Return which messages the plugin's compaction text in a content replaces.

    Return None if the content has no such text.
    """
    compaction = find_compaction("\n".join(str(part.get("text") or "") for part in content))
    return compaction[0] if compaction else None


def report_usage(
    data: Path, event: Mapping[str, Any], replaced: CompactedBranch, counts: Mapping[str, Any]
) -> None:
    """Send the usage of a call to the service.

    `event` names the session and the model, `replaced` the messages that the call's compaction text
    replaced. `counts` are the tokens as Codex counts them. Do nothing if they count no prompt.
    """
    import httpx

    from contextrender_bridge.base.usage_reading import usage_of
    from contextrender_bridge.client.credentials import stored_credentials

    # Read Codex's counts like a provider's, and name the call by its number of messages.
    usage = usage_of(str(event.get("model") or ""), counts)
    if usage is None:
        return
    fields = {"messages": replaced.messages, **usage.to_report()}
    credentials = stored_credentials(data)
    httpx.post(
        f"{credentials.url}/walker/record_usage",
        json={"session": event["session_id"], "branch": replaced.number, "usage": fields},
        headers={"authorization": f"Bearer {credentials.token}"},
        timeout=REPORT_SECONDS,
        trust_env=False,
    )
