"""A small agent for live runs: it reads files with a tool until it can answer.

    python agent.py TASK

OPENAI_BASE_URL, OPENAI_API_KEY and LIVE_MODEL say whom it asks. Its answer is its last line.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

MOST_STEPS = 120
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "The whole text of one file.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    },
}
SYSTEM = "Read one file at a time with read_file. When you know the answer, give it alone."


def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = {"model": os.environ["LIVE_MODEL"], "messages": messages, "tools": [TOOL]}
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
    }
    url = f"{os.environ['OPENAI_BASE_URL'].rstrip('/')}/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as reply:
        message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
    return {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)}


def read_file(arguments: str) -> str:
    try:
        # Of this folder alone, whatever the model writes.
        return Path(Path(json.loads(arguments)["name"]).name).read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"error: {error}"


def main() -> int:
    names = " ".join(sorted(path.name for path in Path().iterdir()))
    task = f"{sys.argv[1]}\n\nThe files: {names}"
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": task},
    ]
    for _ in range(MOST_STEPS):
        messages.append(said := ask(messages))
        for call in said.get("tool_calls") or ():
            text = read_file(call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not said.get("tool_calls"):
            print(said.get("content") or "")
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
