"""Codex's SessionStart hook: it starts the service, and after a compaction it adds results.

After a compaction, Codex passes the session's file to the hook. The hook prints the results that
the next steps probably need, and Codex adds them after its summary.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from contextrender_bridge.base.errors import ContextRenderError, NoCredentials, Unreachable
from contextrender_bridge.client.credentials import stored_credentials
from contextrender_bridge.dialects import RESPONSES
from contextrender_bridge.plugins.start import start_in_background

CLIENT: Final = "codex"
ANSWER_SECONDS: Final = 5.0
CHARACTERS_PER_TOKEN: Final = 8
"""The maximum average of characters per token in a text that the service sends."""


def main(words: Sequence[str]) -> None:
    """Handle the JSON event on standard input.

    After a compaction, print the reply to Codex. At any other start of a session, start the
    service. `words` are the data folder and the maximum tokens of the added text.
    """
    data, tokens = Path(words[0]), int(words[1])
    event = json.load(sys.stdin)
    if event.get("source") == "compact":
        print(json.dumps(answer_compaction(data, event, tokens)))
    else:
        start_in_background(data)


def answer_compaction(data: Path, event: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Return the hook's reply to a compaction: a text for the model and a line for the user.

    `event` is Codex's event, and `tokens` the maximum size of the text. If the service sends no
    text, return only a line with the reason. Codex then continues with its own summary.
    """
    started = time.monotonic()
    try:
        reply = ask_for_text(data, event, tokens)
        # Write the text for the model and the line for the user.
        milliseconds = (time.monotonic() - started) * 1000
        session = f"The session's name for the tool `recall` is {event['session_id']}."
        context = f"{session}\n\n{reply['text']}"
        partly = f" and parts of {reply['excerpts']}" if reply["excerpts"] else ""
        line = (
            f"ContextRender added {reply['complete']} of {reply['results']:,} results{partly} in "
            f"{reply['tokens']:,} tokens, {milliseconds:.0f} ms."
        )
    except Exception as error:  # Codex continues without the text
        is_ours = isinstance(error, ContextRenderError)
        reason = str(error) if is_ours else f"It failed: {type(error).__name__}: {error}"[:200]
        return {"systemMessage": f"ContextRender left this compaction to Codex. {reason}"}
    specific = {"hookEventName": "SessionStart", "additionalContext": context}
    return {"systemMessage": line, "hookSpecificOutput": specific}


def ask_for_text(data: Path, event: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Send the session's history to the service, and return its reply with the text to add.

    If the service is not running, start it for the next time. Raise Unreachable if the service does
    not answer or refuses the request, and ValueError if its text is empty or too large.
    """
    # Read the history from the session's file.
    with Path(event["transcript_path"]).open(encoding="utf-8") as lines:
        items = list(read_items(lines))
    request = {
        "session": event["session_id"],
        "messages": RESPONSES.read({"input": items}).messages,
        "tokens": tokens,
        "client": CLIENT,
        "only_results": True,
        "model": str(event.get("model") or ""),
    }
    # Ask the service of the data folder, whatever the agent's environment names.
    try:
        credentials = stored_credentials(data)
        response = httpx.post(
            f"{credentials.url}/v1/compact",
            json=request,
            headers={"authorization": f"Bearer {credentials.token}"},
            timeout=ANSWER_SECONDS,
            trust_env=False,
        )
    except httpx.TimeoutException:
        raise Unreachable(f"The service did not answer within {ANSWER_SECONDS:.0f} s.") from None
    except (NoCredentials, httpx.TransportError):
        start_in_background(data)
        raise Unreachable("The service is not running; it is started for the next time.") from None
    if response.status_code != 200:
        raise Unreachable(f"The service refused the request (status {response.status_code}).")
    # Check the text before Codex adds it. Its length limits a wrong count of tokens.
    reply: dict[str, Any] = response.json()
    if not reply["text"].strip():
        raise ValueError("the service sent no text")
    if max(reply["tokens"], len(reply["text"]) / CHARACTERS_PER_TOKEN) > tokens:
        raise ValueError("the service sent a text that is too large")
    return reply


def read_items(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the messages, calls and results in the lines of a session's file, as API items.

    Skip lines that are not JSON or have other records.
    """
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("type") == "response_item":
            payload = entry.get("payload")
            if isinstance(payload, dict):
                yield payload
