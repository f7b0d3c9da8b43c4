"""A run as peers are sent it, and what of it they left."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.runs import Run

Json = dict[str, Any]
Message = Mapping[str, Any]
_SYSTEM = ("system", "developer")


class Sent:
    """A run's messages with a call id of its own for every call, so that results can be told."""

    def __init__(self, run: Run) -> None:
        """Renames the ids; a result answers the first open call with its id."""
        self.messages: list[Json] = []
        self._at: dict[str, int] = {}
        self._task = next((m for m in run.messages if m["role"] == "user"), None)
        waiting: dict[str, list[str]] = {}
        for position, message in enumerate(run.messages):
            renamed = dict(message)
            if message.get("tool_calls"):
                renamed["tool_calls"] = calls = []
                for number, call in enumerate(message["tool_calls"]):
                    id = f"call_{position}_{number}"
                    waiting.setdefault(str(call.get("id")), []).append(id)
                    calls.append({**call, "id": id})
            elif message["role"] == "tool":
                known = waiting.get(str(message.get("tool_call_id")))
                id = known.pop(0) if known else f"none_{position}"
                self._at[id] = position
                renamed["tool_call_id"] = id
            self.messages.append(renamed)

    def outside(self, count: int) -> list[int]:
        """Positions of the first messages that the budget does not limit."""
        roles = [message["role"] for message in self.messages[:count]]
        leading = next((i for i, role in enumerate(roles) if role not in _SYSTEM), count)
        users = [position for position, role in enumerate(roles) if role == "user"]
        return [*range(leading), *users[-1:]]

    def complete(self, shown: Sequence[Message]) -> set[int]:
        """Positions of the results shown complete."""
        found = set()
        for message in shown:
            if message["role"] != "tool":
                continue
            position = self._at.get(str(message.get("tool_call_id")))
            if position is not None and _same(self.messages[position], message):
                found.add(position)
        return found

    def has_task(self, shown: Sequence[Message]) -> bool:
        """Whether the first user message is still there, in full."""
        return self._task is None or any(_same(self._task, message) for message in shown)


def orphans(messages: Sequence[Message]) -> int:
    """Calls without a result, and results without a call before them."""
    open_calls: set[str] = set()
    found = 0
    for message in messages:
        open_calls |= {str(call.get("id")) for call in message.get("tool_calls") or ()}
        if message["role"] == "tool":
            id = str(message.get("tool_call_id"))
            found += id not in open_calls
            open_calls.discard(id)
    return found + len(open_calls)


def _same(one: Message, other: Message) -> bool:
    return one["role"] == other["role"] and one.get("content") == other.get("content")
