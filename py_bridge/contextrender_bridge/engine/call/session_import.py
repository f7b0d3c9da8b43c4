"""An exported session, checked before anything is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.exported_calls import ExportedCall, kinds_of, read_calls
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.history.session_cache import ROOT
from contextrender_bridge.engine.text.transcript import Json, check_messages


@dataclass(slots=True, frozen=True)
class ImportedBranch:
    """A branch's own messages after `parent`'s first `fork`, and when each was recorded.

    `calls` are its model calls, in order.
    """

    parent: int
    fork: int
    messages: list[Json]
    timestamps: list[float]
    calls: list[ExportedCall]


@dataclass(slots=True, frozen=True)
class ExportedSession:
    """The branches in the order they were made; `head` is the one written last."""

    session: str
    settings: Json
    head: int
    branches: list[ImportedBranch]


def read_export(data: Mapping[str, Any], expected: str) -> ExportedSession:
    """The session in an export of format `expected`. Raises InvalidRequest saying what is wrong."""
    if data.get("format") != expected:
        raise InvalidRequest(f"data.format must be {expected!r}")
    settings = _typed(data, "settings", dict)
    model = settings.get("model") or ""
    if not isinstance(model, str):
        raise InvalidRequest("data.settings.model must be text")
    RenderSettings().updated({name: settings[name] for name in settings if name != "model"})
    branches: list[ImportedBranch] = []
    lines: list[list[str]] = []
    for number, branch in enumerate(_typed(data, "branches", list)):
        if not isinstance(branch, Mapping):
            raise InvalidRequest(f"data.branches[{number}] must be an object")
        read = _branch(branch, number, lines)
        branches.append(read)
        before = [] if read.parent == ROOT else lines[read.parent][: read.fork]
        lines.append(before + kinds_of(read.messages))
    head = _typed(data, "head", int)
    if not 0 <= head < len(branches):
        raise InvalidRequest("data.head must be the number of a branch")
    key = _typed(data, "session", str)
    return ExportedSession(key, dict(settings), head, branches)


def _is_time(stamp: Any) -> bool:
    return isinstance(stamp, int | float) and abs(stamp) < 1e12


def _branch(data: Mapping[str, Any], number: int, lines: list[list[str]]) -> ImportedBranch:
    """Return a branch; `lines` has the kinds of each earlier one's events, by message."""
    where = f"data.branches[{number}]"
    parent, fork = _typed(data, "parent", int), _typed(data, "fork_position", int)
    last = 0 if parent == ROOT else len(lines[parent]) if 0 <= parent < number else -1
    if not 0 <= fork <= last:
        raise InvalidRequest(f"{where} must fork from an earlier branch, within its messages")
    messages = _typed(data, "messages", list)
    timestamps = _typed(data, "timestamps", list)
    if not messages or len(timestamps) != len(messages):
        raise InvalidRequest(f"{where} needs messages and as many timestamps")
    if not all(map(_is_time, timestamps)):
        raise InvalidRequest(f"{where}.timestamps must be seconds since 1970")
    check_messages(messages, fork)
    line = [] if parent == ROOT else lines[parent][:fork]
    told = _typed(data, "calls", list) if "calls" in data else []
    calls = read_calls(told, where, fork, line + kinds_of(messages))
    stamps = [float(stamp) for stamp in timestamps]
    return ImportedBranch(parent, fork, messages, stamps, calls)


def _typed[T](data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequest(f"{name} must be {kind.__name__}")
    return value
