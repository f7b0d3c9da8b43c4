"""An exported session, checked before anything is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from contextrender_bridge.base.errors import InvalidRequest

from engine.call.exported_calls import read_calls
from engine.call.facts import CallFact
from engine.call.request import RenderSettings
from engine.history.branches import ROOT
from engine.text.transcript import Json, check_messages


@dataclass(slots=True, frozen=True)
class ExportedBranch:
    """A branch's own messages after `parent`'s first `fork`, and when each was recorded.

    `calls` tell what its model calls were shown, by the position of their answers; of one that is
    not answered yet, by that which its answer will have.
    """

    parent: int
    fork: int
    messages: list[Json]
    timestamps: list[float]
    calls: dict[int, CallFact]


@dataclass(slots=True, frozen=True)
class ExportedSession:
    """The branches in the order they were made; `head` is the one written last.

    `origin` is when the first of the session's copies was made (seconds since 1970), 0 if unknown.
    """

    session: str
    origin: float
    settings: Json
    head: int
    branches: list[ExportedBranch]


def read_export(data: Mapping[str, Any], expected: str) -> ExportedSession:
    """The session in an export of format `expected`. Raises InvalidRequest saying what is wrong."""
    if data.get("format") != expected:
        raise InvalidRequest(f"data.format must be {expected!r}")
    settings = _typed(data, "settings", dict)
    model = settings.get("model") or ""
    if not isinstance(model, str):
        raise InvalidRequest("data.settings.model must be text")
    RenderSettings().updated({name: settings[name] for name in settings if name != "model"})
    branches: list[ExportedBranch] = []
    lines: list[list[int]] = []
    for number, branch in enumerate(_typed(data, "branches", list)):
        if not isinstance(branch, Mapping):
            raise InvalidRequest(f"data.branches[{number}] must be an object")
        read = _branch(branch, number, lines)
        branches.append(read)
        before = [0] if read.parent == ROOT else lines[read.parent][: read.fork + 1]
        own = (message["role"] == "tool" for message in read.messages)
        lines.append([*before[:-1], *accumulate(own, initial=before[-1])])
    head = _typed(data, "head", int)
    if not 0 <= head < len(branches):
        raise InvalidRequest("data.head must be the number of a branch")
    key = _typed(data, "session", str)
    return ExportedSession(key, _origin(data), dict(settings), head, branches)


def _origin(data: Mapping[str, Any]) -> float:
    told = data.get("origin") or data.get("created_at") or 0.0
    if not _is_time(told):
        raise InvalidRequest("data.created_at and data.origin must be seconds since 1970")
    return float(told)


def _is_time(stamp: Any) -> bool:
    return isinstance(stamp, int | float) and abs(stamp) < 1e12


def _branch(data: Mapping[str, Any], number: int, lines: list[list[int]]) -> ExportedBranch:
    """A branch; `lines` tells of each earlier one how many results its first messages have."""
    where = f"data.branches[{number}]"
    parent, fork = _typed(data, "parent", int), _typed(data, "fork", int)
    last = 0 if parent == ROOT else len(lines[parent]) - 2 if 0 <= parent < number else -1
    if not 0 <= fork <= last:
        raise InvalidRequest(f"{where} must fork from an earlier branch, within its messages")
    messages = _typed(data, "messages", list)
    timestamps = _typed(data, "timestamps", list)
    if not messages or len(timestamps) != len(messages):
        raise InvalidRequest(f"{where} needs messages and as many timestamps")
    if not all(map(_is_time, timestamps)):
        raise InvalidRequest(f"{where}.timestamps must be seconds since 1970")
    check_messages(messages, fork)
    results = 0 if parent == ROOT else lines[parent][fork]
    noted = _typed(data, "calls", list) if "calls" in data else []
    calls = read_calls(noted, where, fork, results, messages)
    stamps = [float(stamp) for stamp in timestamps]
    return ExportedBranch(parent, fork, messages, stamps, calls)


def _typed[T](data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequest(f"{name} must be {kind.__name__}")
    return value
