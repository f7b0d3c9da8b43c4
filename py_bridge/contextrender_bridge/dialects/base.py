"""What every dialect is: a way to read a request body, and to cut it down by a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from contextrender_bridge.dialects.message_plan import MessagePlan
from contextrender_bridge.wire import Json

Body = Mapping[str, Any]


class Transcript(Protocol):
    """One request's history. `messages` are the canonical ones, in order."""

    messages: list[Json]

    def apply(self, plan: MessagePlan) -> Json:
        """The body with only what `plan` shows; equal to the original where that is everything."""

    def result(self, message: int) -> Any:
        """The original content of the tool result that is canonical message `message`."""


class Dialect(Protocol):
    """A request format."""

    def read(self, body: Body) -> Transcript:
        """The transcript of a request. Never raises: what is not understood is only kept."""
