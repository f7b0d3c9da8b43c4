"""Names of sessions that callers do not name: one for each conversation.

Such a name is made from how a history begins. Two people may begin alike and go on differently, so
the service is asked before a history goes on in a session that already has one
(`Core.find_session`). If they part, the history gets a name of its own, made from where they part:
the same in every process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.dialects.call_pairing import is_generated_id

Message = Mapping[str, Any]
REMEMBERED = 1024
SHORTEST_ID = 16
"""Characters: shorter ids of calls are counters, and two conversations may share them."""


class SessionNames:
    """The names of histories that begin alike, by where they part, as this process has seen."""

    def __init__(self) -> None:
        self._forks: OrderedDict[tuple[str | None, str], dict[int, dict[str, str]]] = OrderedDict()

    def find(self, token: str | None, name: str, messages: Sequence[Message]) -> str:
        """Return the name of a history whose beginning has the name `name`."""
        while forks := self._forks.get((token, name)):
            self._forks.move_to_end((token, name))
            after = [
                forks[place].get(_beginning(messages, place))
                for place in sorted(forks)
                if place < len(messages)
            ]
            longer_name = next(filter(None, after), None)
            if longer_name is None:
                break
            name = longer_name
        return name

    def add(self, token: str | None, name: str, messages: Sequence[Message], fork: int) -> None:
        """Remember that a history differs from the one of this name at message `fork`."""
        begun = _beginning(messages, fork)
        names = self._forks.setdefault((token, name), {}).setdefault(fork, {})
        names[begun] = f"auto-{wire.digest_of(name, begun)}"
        while len(self._forks) > REMEMBERED:
            self._forks.popitem(last=False)


def has_unique_call(messages: Sequence[Message]) -> bool:
    """Return whether messages have a tool call with an id that no other conversation has.

    A history that shares it is the same conversation, with a past that the agent has rewritten.
    """
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return any(len(name) >= SHORTEST_ID and not is_generated_id(name) for name in ids)


def _beginning(messages: Sequence[Message], fork: int) -> str:
    """Return a digest of the messages up to the first that differs, without system prompts."""
    begun = messages[: fork + 1]
    return wire.digest_of(*[m for m in begun if m["role"] not in ("system", "developer")])
