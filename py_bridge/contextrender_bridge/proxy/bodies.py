"""Bodies of requests, of which only what is new is parsed: an agent sends its history every time.

JSON is read from left to right. Where a body begins with the same text as an earlier one, up to the
end of an item of its history, what was read up to there is the same, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import Dialect, Transcript

REMEMBERED = 64
MOST_CHARACTERS = 64 * 2**20
BACK = 6
"""Items at the end of a history that may come otherwise the next time: marks of a cache move."""
TRANSCRIPTS = 3

_SPACE = re.compile(r"[ \t\n\r]*")
_value = json.JSONDecoder().raw_decode


@dataclass
class Body:
    """A request, and the text up to the end of its last item, by which a later one is known.

    The first `old` items are an earlier one's. `starts` and `ends` are the items' places in the
    text; `open` and `close` are where the list of items begins and ends, without its brackets.
    """

    fields: Json
    head: str = field(default="", repr=False)
    begun: Mapping[str, Any] = field(default_factory=dict, repr=False)
    items: list[Any] = field(default_factory=list, repr=False)
    starts: list[int] = field(default_factory=list, repr=False)
    ends: list[int] = field(default_factory=list, repr=False)
    open: int = 0
    close: int = 0
    old: int = 0
    transcripts: list[Transcript] = field(default_factory=list, repr=False)

    def read(self, reader: Dialect) -> Transcript:
        """The request's transcript."""
        before = [one for one in self.transcripts if 0 < one.stable_count <= self.old]
        made = reader.read(self.fields, before[-1] if before else None)
        self.transcripts = [*self.transcripts, made][-TRANSCRIPTS:]
        return made


class Bodies:
    """Those of the histories that were sent last."""

    def __init__(self) -> None:
        """None yet."""
        self._read: list[Body] = []

    def read(self, raw: bytes, key: str) -> Body:
        """The body whose items are in its field `key`. Raises ValueError where it is no JSON."""
        try:
            text = raw.decode()
            before = self._beginning(text)
            made = _parsed(text, key, *(before or (None, 0)))
        except (ValueError, IndexError, RecursionError):
            return Body(wire.loads(raw))
        if before:
            self._read.remove(before[0])
            made.transcripts = before[0].transcripts
        if made.head:
            self._read.append(made)
            self._forget()
        return made

    def _beginning(self, text: str) -> tuple[Body, int] | None:
        """The body that begins so, and with how many of its items."""
        for back in range(BACK):
            for one in reversed(self._read):
                count = len(one.ends) - back
                if count > 0 and text.startswith(one.head[: one.ends[count - 1]]):
                    return one, count
        return None

    def _forget(self) -> None:
        characters = 0
        for at in range(len(self._read) - 1, -1, -1):
            characters += len(self._read[at].head)
            if characters > MOST_CHARACTERS or len(self._read) - at > REMEMBERED:
                del self._read[: at + 1]
                return


def _parsed(text: str, key: str, before: Body | None = None, count: int = 0) -> Body:
    """The body, read from behind the first items of an earlier one.

    Raises ValueError for what is no JSON object, IndexError where it ends too early.
    """
    made = Body({})
    if before is None:
        at = _past(text, 0, "{")
        more = text[at] != "}"
    else:
        made.fields, made.begun, made.old = dict(before.begun), before.begun, count
        made.open = before.open
        at, more = _next(text, _read_items(text, before.ends[count - 1], key, made, before))
    while more:
        name, at = _value(text, at)
        at = _past(text, at, ":")
        if name == key and text[at] == "[" and not made.head:
            made.begun = dict(made.fields)
            at = _read_items(text, at, key, made, None)
        else:
            if name == key:
                made.head, made.close = "", 0
            made.fields[name], at = _value(text, at)
        at, more = _next(text, at)
    if text[at] != "}" or _on(text, at + 1) != len(text):
        raise ValueError("not one object")
    return made


def _read_items(text: str, at: int, key: str, made: Body, before: Body | None) -> int:
    """Reads on in the items; gives where the text goes on behind them.

    `at` is where they begin, or where the first ones end that are those of `before`.
    """
    if before is None:
        items, starts, ends = [], [], []
        at = _past(text, at, "[")
        made.open = at
        more = text[at] != "]"
    else:
        items, ends = before.items[: made.old], before.ends[: made.old]
        starts = before.starts[: made.old]
        at, more = _next(text, at)
    while more:
        starts.append(at)
        item, at = _value(text, at)
        items.append(item)
        ends.append(at)
        at, more = _next(text, at)
    if text[at] != "]":
        raise ValueError("not a list")
    made.fields[key], made.items, made.starts, made.ends = items, items, starts, ends
    made.close = at
    made.head = text[: ends[-1]] if ends else ""
    return at + 1


def _next(text: str, at: int) -> tuple[int, bool]:
    """Where the text goes on behind a value, and whether another one is there."""
    at = _on(text, at)
    return (_on(text, at + 1), True) if text[at] == "," else (at, False)


def _past(text: str, at: int, mark: str) -> int:
    """Where the text goes on behind `mark`, which is next but for white space."""
    at = _on(text, at)
    if text[at] != mark:
        raise ValueError(f"no {mark}")
    return _on(text, at + 1)


def _on(text: str, at: int) -> int:
    """Where the text goes on behind white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at
