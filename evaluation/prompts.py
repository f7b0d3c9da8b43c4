"""Sizes of prompts, and how much of the previous prompt a prompt begins with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.text.tokens import TokenCounter, call_parts

Unit = tuple[object, int]
"""A message's text or its calls, to compare with, and the tokens."""


@dataclass(slots=True, frozen=True)
class Sent:
    """One prompt: its tokens, and those of them that a provider has cached of the previous one."""

    tokens: int
    cached: int


class Prompts:
    """The prompts of one run, in order; every text is counted once."""

    def __init__(self, counter: TokenCounter) -> None:
        """Counts with `counter`."""
        self._counter = counter
        self._texts: dict[str, int] = {}
        self._calls: dict[tuple[str, str], int] = {}

    def send(
        self, previous: Sequence[Unit], messages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Unit], Sent]:
        """The units of a prompt, and its sizes after the previous prompt's units."""
        units = [unit for message in messages for unit in self._units(message)]
        cached = 0
        for (before, _), (now, tokens) in zip(previous, units, strict=False):
            if before != now:
                break
            cached += tokens
        return units, Sent(sum(tokens for _, tokens in units), cached)

    def tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of messages, as the engine counts them."""
        return sum(tokens for message in messages for _, tokens in self._units(message))

    def _units(self, message: Mapping[str, Any]) -> list[Unit]:
        role, content, calls = (message.get(key) for key in ("role", "content", "tool_calls"))
        units: list[Unit] = []
        tokens = self._text_tokens(role, content)
        if tokens or role != "assistant":
            units.append(((role, content, message.get("tool_call_id")), tokens))
        if calls:
            units.append((calls, sum(map(self._call_tokens, calls))))
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
