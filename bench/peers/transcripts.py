"""A run as peers are sent it, and what of it they left."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
Message = Mapping[str, Any]
_SYSTEM = ("system", "developer")


class Sent:
    """A history with a call id of its own for every call, so that results can be told."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._at: dict[str, int] = {}
        self._waiting: dict[str, list[str]] = {}

    def extend(self, messages: Sequence[Message]) -> None:
        """Takes in what follows. A result answers the first open call with its id."""
        self.messages += [self._renamed(at, m) for at, m in enumerate(messages, len(self.messages))]

    def _renamed(self, position: int, message: Message) -> Json:
        renamed = dict(message)
        if message.get("tool_calls"):
            renamed["tool_calls"] = calls = []
            for number, call in enumerate(message["tool_calls"]):
                id = f"call_{position}_{number}"
                self._waiting.setdefault(str(call.get("id")), []).append(id)
                calls.append({**call, "id": id})
        elif message["role"] == "tool":
            known = self._waiting.get(str(message.get("tool_call_id")))
            id = known.pop(0) if known else f"none_{position}"
            self._at[id] = position
            renamed["tool_call_id"] = id
        return renamed

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

    def left(self, shown: Sequence[Message]) -> set[int]:
        """Positions of the results of which anything is left; a stub is nothing."""
        kept = {str(m.get("tool_call_id")): m for m in shown if m["role"] == "tool"}
        found = {self._at[id]: m for id, m in kept.items() if id in self._at}
        return {at for at, message in found.items() if not self._is_stub(at, message)}

    def _is_stub(self, position: int, message: Message) -> bool:
        whole, part = (str(m.get("content") or "") for m in (self.messages[position], message))
        return part != whole and not any(
            line in whole for line in part.splitlines() if line.strip()
        )


def _same(one: Message, other: Message) -> bool:
    return one["role"] == other["role"] and one.get("content") == other.get("content")
