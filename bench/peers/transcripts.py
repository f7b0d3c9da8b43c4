"""The history that is sent to peers, and its results in the prompts that peers return."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
Message = Mapping[str, Any]
_SYSTEM = ("system", "developer")


class SentHistory:
    """A history in which every call has a unique id, so that results can be identified."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._position_by_id: dict[str, int] = {}
        self._open_ids: dict[str, list[str]] = {}

    def extend(self, messages: Sequence[Message]) -> None:
        """Append messages. A result answers the first open call with its id."""
        self.messages += [
            self._with_unique_ids(position, m)
            for position, m in enumerate(messages, len(self.messages))
        ]

    def _with_unique_ids(self, position: int, message: Message) -> Json:
        """Return a message whose calls, or whose result, have unique ids."""
        renamed = dict(message)
        if message.get("tool_calls"):
            renamed["tool_calls"] = calls = []
            for number, call in enumerate(message["tool_calls"]):
                id = f"call_{position}_{number}"
                self._open_ids.setdefault(str(call.get("id")), []).append(id)
                calls.append({**call, "id": id})
        elif message["role"] == "tool":
            open_ids = self._open_ids.get(str(message.get("tool_call_id")))
            id = open_ids.pop(0) if open_ids else f"none_{position}"
            self._position_by_id[id] = position
            renamed["tool_call_id"] = id
        return renamed

    def unbudgeted(self, count: int) -> list[int]:
        """Return the positions of the first `count` messages that the budget does not limit."""
        roles = [message["role"] for message in self.messages[:count]]
        count_before_conversation = next(
            (i for i, role in enumerate(roles) if role not in _SYSTEM), count
        )
        users = [position for position, role in enumerate(roles) if role == "user"]
        return [*range(count_before_conversation), *users[-1:]]

    def complete(self, prompt: Sequence[Message]) -> set[int]:
        """Return the positions of the results that are complete in a prompt."""
        positions = set()
        for message in prompt:
            if message["role"] != "tool":
                continue
            position = self._position_by_id.get(str(message.get("tool_call_id")))
            if position is not None and _same(self.messages[position], message):
                positions.add(position)
        return positions

    def visible(self, prompt: Sequence[Message]) -> set[int]:
        """Return the positions of the results of which a prompt has any text. A stub has none."""
        results = {str(m.get("tool_call_id")): m for m in prompt if m["role"] == "tool"}
        results_by_position = {
            self._position_by_id[id]: m for id, m in results.items() if id in self._position_by_id
        }
        return {
            position
            for position, message in results_by_position.items()
            if not self._is_stub(position, message)
        }

    def _is_stub(self, position: int, message: Message) -> bool:
        """Return whether a message of a prompt has no line of the result at this position."""
        full_text, text = (str(m.get("content") or "") for m in (self.messages[position], message))
        return text != full_text and not any(
            line in full_text for line in text.splitlines() if line.strip()
        )


def _same(message: Message, other: Message) -> bool:
    return message["role"] == other["role"] and message.get("content") == other.get("content")
