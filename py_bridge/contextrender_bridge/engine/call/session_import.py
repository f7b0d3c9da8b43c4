"""An exported session, checked before anything is made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.provider_usage import TOKEN_FIELDS
from contextrender_bridge.engine.call.settings import DELIVERIES, CallMetadata, RenderSettings
from contextrender_bridge.engine.history.session_cache import ROOT
from contextrender_bridge.engine.text.transcript import Json, check_messages

KNOWN: Final = frozenset(
    {
        *(
            "budget",
            "policy",
            "parameters",
            "agent_defaults",
            "window",
            "pinned_tools",
            "pinned_calls",
        ),
        *("at", "results", "own_budget", "faulted", "back", "parts"),
        *("tokens", "shown", "replaced", "delivery", "model", "client", "embedded", "billed"),
    }
)
SIZES: Final = 5
LATEST: Final = 2**40
"""Of any count, seconds since 1970 among them."""


def read_calls(
    data: Sequence[Any], where: str, fork: int, results: int, messages: Sequence[Json]
) -> dict[int, CallRecord]:
    """Facts by the position of the answer, of a branch with these messages of its own.

    They follow `fork` others, among which there are `results` results. Raises InvalidRequest for
    what no export says, and for calls that tell of results there were not.
    """
    known = list(accumulate((one["role"] == "tool" for one in messages), initial=results))
    found: dict[int, CallRecord] = {}
    for call in data:
        at = call.get("position") if isinstance(call, Mapping) else None
        own = at - fork if isinstance(at, int) and not isinstance(at, bool) else -1
        if not 0 <= own <= len(messages) or not _may_answer(messages, own):
            raise InvalidRequest(f"{where}.calls must each have the position of an answer")
        record = _record({name: call[name] for name in call if name != "position"}, where)
        if _most(record) > known[own]:
            raise InvalidRequest(f"{where}.calls tell of results that were not there yet")
        if found.setdefault(fork + own, record) is not record:
            raise InvalidRequest(f"{where}.calls must be of different answers")
    return found


def _may_answer(messages: Sequence[Json], place: int) -> bool:
    """Whether an answer is there, or is what may come next."""
    if place < len(messages):
        return bool(messages[place]["role"] == "assistant")
    return bool(messages[-1]["role"] != "assistant")


def _most(record: CallRecord) -> int:
    """How many results there must have been."""
    ends = [runs[-2] + runs[-1] for runs in (record.shown, record.replaced, record.back) if runs]
    return max(record.results, *ends) if ends else record.results


def _record(call: Mapping[str, Any], where: str) -> CallRecord:
    sizes, billed = call.get("tokens"), call.get("billed", [])
    runs = [call.get(name, []) for name in ("shown", "replaced", "back")]
    own, parts = [call.get("own_budget", 0)], call.get("parts", [])
    known = (
        set(call) <= KNOWN
        and _are_counts([call.get("at"), call.get("results"), call.get("embedded", 0)])
        and all(_are_counts(each) and len(each) % 2 == 0 for each in runs)
        and isinstance(parts, list)
        and all(_are_counts(part) and (len(part) == 1 or len(part) % 2 == 0) for part in parts)
        and _are_counts([*own, *(sizes if isinstance(sizes, list) else [None])])
        and isinstance(call.get("faulted", False), bool)
        and _are_counts(billed)
        and (len(sizes or ()), len(billed)) in ((SIZES, 0), (SIZES, len(TOKEN_FIELDS)))
        and all(isinstance(call.get(name, ""), str) for name in ("delivery", "model", "client"))
    )
    if not known:
        raise InvalidRequest(f"{where}.calls must be as export_session tells them")
    CallMetadata.of(
        call.get("delivery") or DELIVERIES[0], call.get("model", ""), call.get("client", "")
    )
    return CallRecord.from_json(call)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < LATEST for v in values)


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
    calls: dict[int, CallRecord]


@dataclass(slots=True, frozen=True)
class ExportedSession:
    """The branches in the order they were made; `head` is the one written last."""

    session: str
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
    return ExportedSession(key, dict(settings), head, branches)


def _is_time(stamp: Any) -> bool:
    return isinstance(stamp, int | float) and abs(stamp) < 1e12


def _branch(data: Mapping[str, Any], number: int, lines: list[list[int]]) -> ExportedBranch:
    """A branch; `lines` tells of each earlier one how many results its first messages have."""
    where = f"data.branches[{number}]"
    parent, fork = _typed(data, "parent", int), _typed(data, "fork_position", int)
    last = 0 if parent == ROOT else len(lines[parent]) - 1 if 0 <= parent < number else -1
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
