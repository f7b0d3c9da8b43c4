"""The calls that a branch notes until they are answered: facts by how many messages they had."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.call.facts import CallFact

Noted = list[dict[str, Any]]

KEPT: Final = 2
"""The newest call, and one made again from earlier."""


def waiting_fact(noted: Sequence[Mapping[str, Any]], messages: int) -> CallFact | None:
    """What the call with so many messages was shown."""
    for call in noted:
        if call["messages"] == messages:
            return CallFact.from_json(call)
    return None


def those_with(noted: Sequence[Mapping[str, Any]], messages: int) -> Noted:
    """What is noted of the call with so many messages alone."""
    return [dict(call) for call in noted if call["messages"] == messages]


def those_without(noted: Sequence[Mapping[str, Any]], messages: int) -> Noted:
    """What is noted of all others."""
    return [dict(call) for call in noted if call["messages"] != messages]


def noting(noted: Sequence[Mapping[str, Any]], messages: int, fact: CallFact) -> Noted:
    """The notes with one more, or anew."""
    fresh = {"messages": messages, **fact.to_json()}
    return [*those_without(noted, messages), fresh][-KEPT:]
