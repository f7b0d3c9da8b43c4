"""A recorded run, and functions for values that the readers of agents' sessions share."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import count_of
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS


@dataclass
class RecordedRun:
    """The history of an agent at its last model call, and the usage of all its calls.

    A session that was compacted has several runs with the same `task`. Each of them `continues` the
    previous one and begins with its summary.
    """

    id: str
    source: str
    task: str
    model: str = ""
    messages: list[Json] = field(default_factory=list)
    """The messages of the history, as canonical chat messages."""
    times: list[float] = field(default_factory=list)
    """The Unix second of each message; 0 if it is unknown."""
    usage: list[Usage] = field(default_factory=list)
    continues: str = ""
    """The id of the run whose history the agent compacted; empty if there is none."""
    hides_summary: bool = False
    """True if the file lacks the text of the summary with which this run begins."""
    has_estimate: bool = False
    """True if the files beside the summary are assumed: the agent did not record them."""
    billed_at: dict[int, float] = field(default_factory=dict)
    """The Unix second of each item of `usage`, by its index, if it is known."""
    resumed: set[int] = field(default_factory=set)
    """The indexes in `usage` of the first calls after the agent resumed the session."""

    def add(self, dialect: str, item: Json, time: float = 0.0) -> None:
        """Append one item of a request, converted to chat messages, with its time.

        `dialect` is the item's format: "chat", "responses" or "messages".
        """
        for message in DIALECTS[dialect].read({DIALECTS[dialect].key: [item]}).messages:
            previous = self.messages[-1] if self.messages else {"role": ""}
            # In the Responses API, the text and each call of one answer are separate items. Join
            # them to one message.
            if dialect == "responses" and previous["role"] == message["role"] == "assistant":
                _join(previous, message)
            else:
                self.messages.append(message)
                self.times.append(time)

    def add_request(self, dialect: str, request: Json) -> None:
        """Append the history of a request, with its system prompt, converted to chat messages."""
        messages = DIALECTS[dialect].read(request).messages
        self.messages += messages
        self.times += [0.0] * len(messages)

    def next_after_compaction(self) -> "RecordedRun":
        """Return an empty run that continues this one after a compaction.

        It is of the same session. The number at the end of its id is one higher.
        """
        session, _, part = self.id.rpartition("#")
        return RecordedRun(f"{session}#{int(part) + 1}", self.source, self.task, continues=self.id)

    @property
    def calls(self) -> int:
        """The number of answers in the messages."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def counted_calls(self) -> int:
        """The number of calls with recorded usage."""
        return sum(usage.calls for usage in self.usage)


def _join(answer: Json, addition: Json) -> None:
    """Append the text and the tool calls of `addition` to an answer."""
    texts = [text for text in (answer.get("content"), addition.get("content")) if text]
    answer["content"] = "\n\n".join(texts) if texts else None
    if calls := [*answer.get("tool_calls", ()), *addition.get("tool_calls", ())]:
        answer["tool_calls"] = calls


def second_of(stamp: object) -> float:
    """Return a time stamp in Unix seconds; 0 if it is invalid.

    The stamp is a number of seconds or milliseconds, or a text in ISO 8601.
    """
    try:
        if isinstance(stamp, (int, float)):
            # As seconds, such a number would be thousands of years away.
            is_in_milliseconds = stamp > 1e11
            return float(stamp) / (1000 if is_in_milliseconds else 1)
        if isinstance(stamp, str):
            return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        pass
    return 0.0


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Any]:
    """Return the value if it is a list, otherwise an empty sequence."""
    return value if isinstance(value, list) else ()


def counts_of(*values: object) -> list[int] | None:
    """Return the values as counts of tokens. A value of None is 0.

    Return None if one of the values is not a count.
    """
    counts: list[int] = []
    for value in values:
        count = 0 if value is None else count_of(value)
        if count is None:
            return None
        counts.append(count)
    return counts


def digest(*values: object) -> str:
    """Return a hash that is equal for equal values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:32]


def chat(role: object, texts: Iterable[object], calls: Sequence[Json]) -> Json:
    """Return a chat message with these texts, joined by newlines, and these tool calls."""
    message: Json = {"role": str(role), "content": "\n".join(map(str, filter(None, texts))) or None}
    return {**message, "tool_calls": calls} if calls else message


def tool_call(id: object, name: object, arguments: object) -> Json:
    """Return a tool call of a chat message. `arguments` is JSON text, or a value to encode."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": str(id), "type": "function", "function": {"name": str(name), "arguments": text}}
