"""An exported session, which is checked before it is imported."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.exported_calls import ExportedCall, event_kinds_of, read_calls
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.history.branch_matching import ROOT
from contextrender_bridge.engine.text.transcript import Json, check_messages

EXPORT_NAME = "contextrender.session/"
EXPORT_FORMAT = f"{EXPORT_NAME}3"
"""The format of exported sessions. In every version, it begins with `EXPORT_NAME`."""


@dataclass(slots=True, frozen=True)
class ImportedBranch:
    """A branch: the first `fork` messages of `parent`, and then its own `messages`.

    `timestamps` has the time of each own message in seconds since 1970. `calls` are the branch's
    model calls in order.
    """

    parent: int
    fork: int
    messages: list[Json]
    timestamps: list[float]
    calls: list[ExportedCall]


@dataclass(slots=True, frozen=True)
class ExportedSession:
    """A session with its branches in order. `head` is the number of the branch written last."""

    session: str
    settings: Json
    head: int
    branches: list[ImportedBranch]


def read_export(data: Mapping[str, Any]) -> ExportedSession:
    """Check an export and return its session. Raise InvalidRequest naming the first wrong field."""
    if data.get("format") != EXPORT_FORMAT:
        raise InvalidRequest(f"data.format must be {EXPORT_FORMAT!r}")
    settings = _typed(data, "settings", dict)
    model = settings.get("model") or ""
    if not isinstance(model, str):
        raise InvalidRequest("data.settings.model must be text")
    # Check the other settings: this raises InvalidRequest for an invalid one.
    RenderSettings().updated({name: settings[name] for name in settings if name != "model"})
    branches = _branches(_typed(data, "branches", list))
    head = _typed(data, "head", int)
    if not 0 <= head < len(branches):
        raise InvalidRequest("data.head must be the number of a branch")
    key = _typed(data, "session", str)
    return ExportedSession(key, dict(settings), head, branches)


def _branches(data: list[Any]) -> list[ImportedBranch]:
    """Check and return an export's branches. Raise InvalidRequest naming the first wrong field.

    A branch may fork from an earlier branch. Then its calls may also refer to the events that it
    shares with the earlier branch.
    """
    branches: list[ImportedBranch] = []
    kinds_by_branch: list[list[str]] = []
    for number, fields in enumerate(data):
        if not isinstance(fields, Mapping):
            raise InvalidRequest(f"data.branches[{number}] must be an object")
        branch = _branch(fields, number, kinds_by_branch)
        branches.append(branch)
        parent_kinds = [] if branch.parent == ROOT else kinds_by_branch[branch.parent]
        kinds_by_branch.append(parent_kinds[: branch.fork] + event_kinds_of(branch.messages))
    return branches


def _is_time(stamp: Any) -> bool:
    """Return whether a value is a number of seconds with which dates can be computed."""
    return isinstance(stamp, int | float) and abs(stamp) < 1e12


def _branch(
    data: Mapping[str, Any], number: int, kinds_by_branch: list[list[str]]
) -> ImportedBranch:
    """Check and return a branch of an export. Raise InvalidRequest naming the first wrong field.

    `kinds_by_branch` has a list for each earlier branch, with one text per message, inherited
    messages included. The text has the kinds of the message's events (`event_kinds_of`).
    """
    # The place of the fork.
    field_path = f"data.branches[{number}]"
    parent, fork = _typed(data, "parent", int), _typed(data, "fork_position", int)
    parent_kinds = kinds_by_branch[parent] if 0 <= parent < number else []  # none for ROOT
    if not ROOT <= parent < number or not 0 <= fork <= len(parent_kinds):
        raise InvalidRequest(f"{field_path} must fork from an earlier branch, within its messages")
    # The branch's own messages.
    messages = _typed(data, "messages", list)
    timestamps = _typed(data, "timestamps", list)
    if not messages or len(timestamps) != len(messages):
        raise InvalidRequest(f"{field_path} needs messages and as many timestamps")
    if not all(map(_is_time, timestamps)):
        raise InvalidRequest(f"{field_path}.timestamps must be seconds since 1970")
    check_messages(messages, fork)  # raises for a wrong message
    calls = read_calls(
        _typed(data, "calls", list) if "calls" in data else [],
        field_path,
        fork,
        parent_kinds[:fork] + event_kinds_of(messages),
    )
    return ImportedBranch(parent, fork, messages, [float(stamp) for stamp in timestamps], calls)


def _typed[T](data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a field. Raise InvalidRequest if it is not of this type."""
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequest(f"{name} must be {kind.__name__}")
    return value
