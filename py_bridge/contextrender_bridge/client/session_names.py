"""Makes names for sessions that callers do not name: one name for each conversation.

A name is made from the beginning of a history. Two conversations may begin alike and then differ.
So before a history is recorded in an existing session, the service is asked whether it continues
that session (`Core.find_session`). If it does not, the history gets another name, made from the
messages up to the first that differs. A history that ends before the recorded one may be the
beginning of another conversation, so its name is made from all of its messages. These names are the
same in every process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.dialects import Dialect

Message = Mapping[str, Any]
REMEMBERED = 1024
Forks = dict[int, dict[str, str]]
"""The new names of the histories that differ from one history.

The first key is the position of the first message that differs, the second one the digest of the
messages up to there.
"""


def name_of(messages: Sequence[Message], caller: str = "") -> str:
    """Make a session name from the beginning of a history.

    All calls of one history get the same name. Different values of `caller` give different names.
    """
    return f"auto-{wire.digest_of(caller, _opening(messages))}"


def name_of_body(reader: Dialect, body: Mapping[str, Any]) -> str:
    """Make a session name from a request body; empty if it has no messages.

    The name depends only on the beginning of the history. So read only the items up to the first
    user item. Read all items if that gives no user message, for example because the item has
    nothing but results.
    """
    items: Any = body.get(reader.key)
    for count, item in enumerate(items if isinstance(items, list) else [], start=1):
        if isinstance(item, Mapping) and item.get("role") == "user":
            opening = reader.read({**body, reader.key: items[:count]}).messages
            if any(message["role"] == "user" for message in opening):
                return name_of(opening)
            break
    messages = reader.read(body).messages
    return name_of(messages) if messages else ""


def _opening(messages: Sequence[Message]) -> list[Message]:
    """Return the messages up to the first user message, or the first message if there is none."""
    for position, message in enumerate(messages):
        if message["role"] == "user":
            return list(messages[: position + 1])
    return list(messages[:1])


class SessionNames:
    """The new names of histories that begin like another one, as far as this process knows them.

    The name of a history is made from its beginning, so a second history may get a name that is
    taken. If it differs from the first one at message `fork`, it gets a new name, made from its
    messages up to the message `fork`.
    """

    def __init__(self) -> None:
        self._forks: OrderedDict[tuple[str | None, str], Forks] = OrderedDict()
        """The forks of each history, by the user's token and the history's name."""

    def find(self, token: str | None, name: str, messages: Sequence[Message]) -> str:
        """Return the session name of a history that belongs to the user with this `token`.

        `name` is the name made from the history's first messages, which other histories may share.
        If the history is known to differ from the history of that name, it has a new name. The
        history of the new name may have such forks, too, so repeat until no fork matches.
        """
        while forks := self._forks.get((token, name)):
            self._forks.move_to_end((token, name))
            # Look for a new name that was made from the messages with which this history begins.
            new_names = (
                forks[fork].get(_beginning_digest(messages, fork))
                for fork in sorted(forks)
                if fork <= len(messages)
            )
            new_name = next(filter(None, new_names), None)
            if new_name is None:
                break
            name = new_name
        return name

    def add(self, token: str | None, name: str, messages: Sequence[Message], fork: int) -> None:
        """Make and keep a new name for a history that differs from the one called `name`.

        `fork` is the position of the first message that differs.
        """
        digest = _beginning_digest(messages, fork)
        names_by_digest = self._forks.setdefault((token, name), {}).setdefault(fork, {})
        names_by_digest[digest] = f"auto-{wire.digest_of(name, digest)}"
        while len(self._forks) > REMEMBERED:
            self._forks.popitem(last=False)


def _beginning_digest(messages: Sequence[Message], fork: int) -> str:
    """Return a digest of the messages up to and including the one at position `fork`.

    Leave out system prompts, because they may differ between calls of one history.
    """
    beginning = messages[: fork + 1]
    return wire.digest_of(*[m for m in beginning if m["role"] not in ("system", "developer")])
