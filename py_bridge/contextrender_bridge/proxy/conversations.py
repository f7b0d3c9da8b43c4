"""What the proxy remembers of a history and of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.proxy.controls import Controls

MEDIA_TOKENS = 800


@dataclass(frozen=True)
class Size:
    """What the service counted of a history's first `messages`, and the budget it used."""

    messages: int = 0
    tokens: int = 0
    budget: int = 0

    def fits(
        self, messages: Sequence[Json], recorded: Callable[[], int], budget: int | str | None
    ) -> bool:
        """Whether a history surely fits: no token is shorter than a byte. `recorded` looks how many
        of its first messages are.
        """
        limit = budget if isinstance(budget, int) else self.budget
        if not limit or self.tokens > limit:
            return False
        fresh = messages[self.messages :]
        more = len(wire.dumps(fresh)) + sum(map(_media_tokens, fresh))
        return self.tokens + more <= limit and self.messages <= recorded()


@dataclass
class Conversation:
    """What the proxy remembers of one history.

    `system` is the system prompt as first recorded: one that changes with every call would
    otherwise make every call a branch of its own. `refused`: the provider took the history only
    whole; `room` is the most tokens of it that it takes, where it has said that a rendering was too
    long, and `most` the bytes of a request. `hopeless`: the last call was refused whatever was
    sent. `calls` and `failed` count the model calls, and those sent unchanged for a failure.
    `usage_report` is what the service has not been told yet of the newest one. `recording` is the
    last call that did not wait for the service.
    """

    system: list[Json] = field(default_factory=list)
    branch: int | None = None
    size: Size = field(default_factory=Size)
    refused: bool = False
    hopeless: bool = False
    room: int | None = None
    most: int | None = None
    warned: bool = False
    calls: int = 0
    failed: int = 0
    usage_report: Mapping[str, Any] | None = None
    recording: asyncio.Task[RenderedRequest] | None = field(default=None, repr=False)

    def within(self, budget: int | str | None) -> int | str | None:
        """A budget, or what the model has room for, where that is known to be less."""
        if self.room is None:
            return budget
        return min(budget, self.room) if isinstance(budget, int) else self.room


@dataclass(frozen=True)
class ProxiedCall:
    """One model call: its session, what is sent on, and the history it belongs to, of so many
    `messages`; `asked` is how.

    A call that surely fits, or that is only observed, does not wait for the service: `later` is
    what it says.
    """

    session: str
    fit: RenderedRequest
    conversation: Conversation
    asked: Controls
    later: asyncio.Task[RenderedRequest] | None = field(default=None, repr=False)
    messages: int = 0

    async def told(self, seconds: float = 0.0) -> RenderedRequest:
        """What the service said, or for a call that did not wait for it, says within that time."""
        if self.later is None:
            return self.fit
        if seconds:
            await asyncio.wait({self.later}, timeout=seconds)
        return self.later.result() if self.later.done() else self.fit


def _media_tokens(message: Json) -> int:
    """More than its media cost; their canonical form is short."""
    content = message.get("content")
    if not isinstance(content, list):
        return 0
    return MEDIA_TOKENS * sum("digest" in part for part in content if isinstance(part, dict))
