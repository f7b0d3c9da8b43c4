"""A run as the readers of agents' sessions make it, and what they share to read values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS


@dataclass
class Recorded:
    """One history of an agent, as its last model call saw it, and all its calls' usage.

    `messages` are canonical chat messages and `times` the second of each, 0 where it is not
    known. A session that was compacted is several of them with one `task`; each `continues` the one
    before, whose summary it begins with. `billed_at` is the second of each of `usage`, by its
    number, where it is known; before those in `resumed` the session was taken up again. Of a
    compaction that `hides_summary`, the file has no summary in words; of one that `has_estimate`,
    it does not have the files that were put back beside the summary.
    """

    id: str
    source: str
    task: str
    model: str = ""
    messages: list[Json] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    continues: str = ""
    hides_summary: bool = False
    has_estimate: bool = False
    billed_at: dict[int, float] = field(default_factory=dict)
    resumed: set[int] = field(default_factory=set)

    def add(self, dialect: str, item: Json, time: float = 0.0) -> None:
        """Appends what one item of a request in that dialect is as messages."""
        field_name = "input" if dialect == "responses" else "messages"
        for message in DIALECTS[dialect].read({field_name: [item]}).messages:
            before = self.messages[-1] if self.messages else {"role": ""}
            # Text and calls of one answer are items there.
            if dialect == "responses" and before["role"] == message["role"] == "assistant":
                _join(before, message)
            else:
                self.messages.append(message)
                self.times.append(time)

    def compacted(self) -> Recorded:
        """The history that goes on from this one's summary."""
        session, _, part = self.id.rpartition("#")
        return Recorded(f"{session}#{int(part) + 1}", self.source, self.task, continues=self.id)

    @property
    def calls(self) -> int:
        """The model's answers."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def billed(self) -> int:
        """The calls that the usage is of."""
        return sum(used.calls for used in self.usage)


def _join(answer: Json, more: Json) -> None:
    """Puts the rest of an answer to its beginning."""
    texts = [text for text in (answer.get("content"), more.get("content")) if text]
    answer["content"] = "\n\n".join(texts) if texts else None
    if calls := [*answer.get("tool_calls", ()), *more.get("tool_calls", ())]:
        answer["tool_calls"] = calls


def second_of(stamp: object) -> float:
    """A time stamp as seconds; 0 if it is none."""
    try:
        if isinstance(stamp, (int, float)):
            return float(stamp) / (1000 if stamp > 1e11 else 1)
        if isinstance(stamp, str):
            return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        pass
    return 0.0


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def whole(value: object) -> int:
    """Return a count, whatever number it is written as; 0 if it is none."""
    try:
        return max(int(float(value)), 0) if isinstance(value, (int, float, str)) else 0
    except (ValueError, OverflowError):
        return 0


def digest(*values: object) -> str:
    """Return a short text that equal values have in common."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:32]


def chat(role: object, texts: Iterable[object], calls: Sequence[Json]) -> Json:
    """A chat message of these texts and calls."""
    made: Json = {"role": str(role), "content": "\n".join(map(str, filter(None, texts))) or None}
    return {**made, "tool_calls": calls} if calls else made


def tool_call(id: object, name: object, arguments: object) -> Json:
    """A call as chat messages have it; `arguments` as JSON text or as what that is of."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": str(id), "type": "function", "function": {"name": str(name), "arguments": text}}
