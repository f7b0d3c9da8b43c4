"""A made-up task with tools: what do the parts of an order cost? It proves the harness only."""

import argparse
import json
import urllib.request
from typing import Any

PARTS = 12


def ask(url: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = json.dumps({"model": "any", "messages": messages, "tools": [{"type": "function"}]})
    request = urllib.request.Request(
        f"{url}/chat/completions", body.encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
    return message


def price(task: str, part: int) -> str:
    return f"PRICE_{(int(task) + 1) * 1000 + part * 37}"


def sheet(task: str, part: int) -> str:
    rows = "\n".join(f"row {row}: checked on day {row}" for row in range(20))
    return f"part_{part} costs {price(task, part)}\n{rows}"


def run(task: str, url: str, steps: int) -> float:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You work at the order desk."},
        {"role": "user", "content": f"What does each of the {PARTS} parts cost?"},
    ]
    for _ in range(steps):
        message = ask(url, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return f1(task, message.get("content") or "")
        for call in message["tool_calls"]:
            part = json.loads(call["function"]["arguments"])["part"]
            result = {"role": "tool", "tool_call_id": call["id"], "content": sheet(task, part)}
            messages.append(result)
    return 0.0


def f1(task: str, answer: str) -> float:
    given = {pair.strip() for pair in answer.split(";") if pair.strip()}
    right = {f"{part}={price(task, part)}" for part in range(PARTS)}
    return 2 * len(given & right) / (len(given) + len(right))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["missing", "tasks", "run"])
    for name in ("--split", "--root", "--task", "--url", "--model"):
        parser.add_argument(name, default="")
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    if args.what == "missing":
        print(json.dumps({"missing": ""}))
    elif args.what == "tasks":
        print(json.dumps({"tasks": ["0", "1"]}))
    else:
        print(json.dumps({"score": run(args.task, args.url, args.steps)}))


if __name__ == "__main__":
    main()
