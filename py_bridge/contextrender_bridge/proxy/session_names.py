"""Names of sessions that callers do not name: one for each conversation.

Such a name is made from how a history begins. Two people may begin alike and go on differently, so
the service is asked before a history goes on in a session that already has one. If they part, the
history gets a name of its own, made from where they part: the same in every process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import OtherConversation
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.dialects.call_pairing import is_made

Message = Mapping[str, Any]
REMEMBERED = 1024
MOST_FORKS = 32
SHORTEST_ID = 16
"""Characters: shorter ids of calls are counters, and two conversations may share them."""


class SessionNames:
    """Finds the session of a history whose caller names none."""

    def __init__(self, client: AsyncContextRender) -> None:
        """`client` reaches the service."""
        self._client = client
        self._forks: OrderedDict[tuple[str | None, str], dict[int, dict[str, str]]] = OrderedDict()

    async def find(
        self, name: str, messages: Sequence[Message], *, token: str | None, line: str, model: object
    ) -> str:
        """Return the name of the session that this history continues, or its own.

        `name` is made from how it begins. What is new of the history may be recorded by this.
        """
        for _ in range(MOST_FORKS):
            name = self._known(token, name, messages)
            if all(message["role"] != "assistant" for message in messages):
                return name
            if self._client.recorded_count(name, messages, token=token, line=line):
                return name
            try:
                await self._client.sync(
                    name,
                    messages,
                    model=model if isinstance(model, str) else None,
                    one_conversation=True,
                    token=token,
                    line=line,
                )
            except OtherConversation as other:
                fork = int(str(other.details.get("fork") or 0))
                if has_unique_call(messages[:fork]):
                    return name
                self._remember(token, name, messages, fork)
            else:
                return name
        return name

    def _known(self, token: str | None, name: str, messages: Sequence[Message]) -> str:
        """Return the name after the partings that this process has seen."""
        while forks := self._forks.get((token, name)):
            self._forks.move_to_end((token, name))
            after = [
                forks[place].get(_beginning(messages, place))
                for place in sorted(forks)
                if place < len(messages)
            ]
            found = next(filter(None, after), None)
            if found is None:
                break
            name = found
        return name

    def _remember(
        self, token: str | None, name: str, messages: Sequence[Message], fork: int
    ) -> None:
        begun = _beginning(messages, fork)
        own = f"auto-{wire.digest_of(name, begun)}"
        self._forks.setdefault((token, name), {}).setdefault(fork, {})[begun] = own
        while len(self._forks) > REMEMBERED:
            self._forks.popitem(last=False)


def has_unique_call(messages: Sequence[Message]) -> bool:
    """Return whether messages have a tool call with an id that no other conversation has.

    A history that shares it is the same conversation, with a past that the agent has rewritten.
    """
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return any(len(name) >= SHORTEST_ID and not is_made(name) for name in ids)


def _beginning(messages: Sequence[Message], fork: int) -> str:
    """Return a digest of the messages up to the first that differs, without system prompts."""
    begun = messages[: fork + 1]
    return wire.digest_of(*[m for m in begun if m["role"] not in ("system", "developer")])
