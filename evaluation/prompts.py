"""Sizes of prompts, and how much of the previous prompt a prompt begins with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from engine.text.tokens import TokenCounter, call_parts, json_text


class Unit(NamedTuple):
    """What of a prompt is cached as a whole: a message's text, its calls, or the tools' schemas.

    `identity` is hashable and tells one from another; `blocks` are the content blocks it is sent
    as.
    """

    identity: object
    tokens: int
    blocks: int = 1


@dataclass(slots=True, frozen=True)
class Sent:
    """One prompt: its tokens, and those of them that the previous prompt began with."""

    tokens: int
    cached: int


class Prompts:
    """The prompts of one run, in order; every text is counted once."""

    def __init__(self, counter: TokenCounter, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        """Counts with `counter`; the schemas of `tools` stand before every prompt billed."""
        self._counter = counter
        self._texts: dict[str, int] = {}
        self._calls: dict[tuple[str, str], int] = {}
        schemas = json_text(list(tools))
        self._tools = [Unit(schemas, counter.text(schemas))] if tools else []

    def send(
        self, previous: Sequence[Unit], messages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Unit], Sent]:
        """The units of a prompt, and its sizes after the previous prompt's units."""
        units = [unit for message in messages for unit in self._units(message)]
        cached = 0
        for before, now in zip(previous, units, strict=False):
            if before.identity != now.identity:
                break
            cached += now.tokens
        return units, Sent(sum(unit.tokens for unit in units), cached)

    def within(self, units: Sequence[Unit], most: int) -> list[Unit]:
        """The first units that fit so many tokens."""
        ends = accumulate(unit.tokens for unit in units)
        return [unit for unit, end in zip(units, ends, strict=True) if end <= most]

    def billed(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """What a provider is sent: the tools' schemas, then the prompt."""
        return [*self._tools, *units]

    def tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of messages, as the engine counts them."""
        return sum(unit.tokens for message in messages for unit in self._units(message))

    def _units(self, message: Mapping[str, Any]) -> list[Unit]:
        role, content, calls = (message.get(key) for key in ("role", "content", "tool_calls"))
        units: list[Unit] = []
        tokens = self._text_tokens(role, content)
        if tokens or role != "assistant":
            text = content if isinstance(content, str) else json_text(content)
            units.append(Unit((role, text, message.get("tool_call_id")), tokens))
        if calls:
            identity = tuple((call.get("id"), *call_parts(call)) for call in calls)
            units.append(Unit(identity, sum(map(self._call_tokens, calls)), len(calls)))
        return units

    def _text_tokens(self, role: object, content: object) -> int:
        if not isinstance(content, str) or not content:
            return self._counter.message({"role": role, "content": content})
        if content not in self._texts:
            self._texts[content] = self._counter.message({"content": content})
        return self._texts[content]

    def _call_tokens(self, call: Mapping[str, Any]) -> int:
        parts = call_parts(call)
        if parts not in self._calls:
            self._calls[parts] = self._counter.call(call)
        return self._calls[parts]
