"""Model calls in an exported session: as they are written, and checked when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.provider_usage import TOKEN_FIELDS
from contextrender_bridge.engine.call.settings import DELIVERIES, CallMetadata
from contextrender_bridge.engine.plan.selection_edges import (
    COMPLETE,
    DROPPED,
    EXCERPT,
    MISSES,
    RESTORED,
    CallEdges,
    ShownEvent,
)
from contextrender_bridge.engine.text.transcript import Json

RECORD: Final = frozenset(
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
        *("at", "results", "own_budget", "faulted"),
        *("tokens", "delivery", "model", "client", "embedded", "billed"),
    }
)
EDGES: Final = frozenset({"shown", "is_relative", "is_over", "rebuilt", "breakpoints"})
OTHERS: Final = frozenset({"position", "again", "step_budget", "missing"})
SIZES: Final = 5
LATEST: Final = 2**40
"""Of any count, seconds since 1970 among them."""
LONGEST_KIND: Final = 40
NEXT: Final = frozenset({"next_pieces", "next_tokens"})
"""The fields of an edge to a result that is shown so in one call alone."""


@dataclass(slots=True, frozen=True)
class ExportedCall:
    """A model call that had the first `messages` messages of its branch.

    It was made `again` if the branch had gone on already. `edges` are None where they are lost.
    """

    messages: int
    again: bool
    record: CallRecord
    edges: CallEdges | None
    missing: tuple[ShownEvent, ...]

    def to_json(self) -> Json:
        """Return it as plain values; what is not set is left out."""
        told: Json = {"position": self.messages, **self.record.to_json()}
        if self.again:
            told["again"] = True
        if self.edges is not None:
            fields = self.edges.fields()
            told |= {name: fields[name] for name in fields if fields[name]}
            told["shown"] = [
                [edge.kind, edge.event, *([dict(edge.fields)] if edge.fields else ())]
                for edge in self.edges.shown
            ]
        if self.missing:
            told["missing"] = [[edge.event, dict(edge.fields)] for edge in self.missing]
        return told


def kinds_of(messages: Iterable[Json]) -> list[str]:
    """Return what the events of each message are: "r" a result, "m" a message, "c" its calls."""
    return [
        "r"
        if one["role"] == "tool"
        else "m" + "c" * len((one.get("tool_calls") or ()) if one["role"] == "assistant" else ())
        for one in messages
    ]


def read_calls(
    data: Sequence[Any], where: str, fork: int, line: Sequence[str]
) -> list[ExportedCall]:
    """Return the calls of a branch that shares the first `fork` messages with its parent.

    `line` has the kinds of each message's events, those of the parent first. Raises InvalidRequest
    for what no export has, and for calls that refer to events that were not there yet.
    """
    events = list(accumulate(map(len, line), initial=0))
    results = list(accumulate((one == "r" for one in line), initial=0))
    kinds = "".join(line)
    found: dict[tuple[int, bool], ExportedCall] = {}
    for call in data:
        at = call.get("position") if isinstance(call, Mapping) else None
        if type(at) is not int or not max(fork, 1) <= at <= len(line):
            raise InvalidRequest(f"{where}.calls must each have a position within the branch")
        read = _call(call, at, where)
        edges = [*(read.edges.shown if read.edges else ()), *read.missing]
        known = kinds[: events[at]]
        if read.record.results > results[at] or not all(_leads_to(edge, known) for edge in edges):
            raise InvalidRequest(f"{where}.calls refer to a result that was not there yet")
        if found.setdefault((at, read.again), read) is not read:
            raise InvalidRequest(f"{where}.calls must each have a position of their own")
    return [found[place] for place in sorted(found)]


def _call(call: Mapping[str, Any], at: int, where: str) -> ExportedCall:
    again = call.get("again", False)
    record = {name: call[name] for name in RECORD & call.keys()}
    if not (call.keys() <= RECORD | EDGES | OTHERS and type(again) is bool and _is_record(record)):
        raise InvalidRequest(f"{where}.calls must have the format that export_session writes")
    CallMetadata.of(
        call.get("delivery") or DELIVERIES[0], call.get("model", ""), call.get("client", "")
    )
    try:
        edges = _edges(call) if "shown" in call else None
        missing = tuple(_missing(*one) for one in call.get("missing", ()))
    except (ValueError, TypeError, KeyError):
        raise InvalidRequest(
            f"{where}.calls must have the format that export_session writes"
        ) from None
    return ExportedCall(at, again, CallRecord.from_json(record), edges, missing)


def _is_record(call: Mapping[str, Any]) -> bool:
    sizes, billed = call.get("tokens"), call.get("billed", [])
    return (
        _are_counts([call.get("at"), call.get("results"), call.get("embedded", 0)])
        and _are_counts([call.get("own_budget", 0)])
        and _are_counts(sizes)
        and isinstance(call.get("faulted", False), bool)
        and _are_counts(billed)
        and (len(sizes or ()), len(billed)) in ((SIZES, 0), (SIZES, len(TOKEN_FIELDS)))
        and all(isinstance(call.get(name, ""), str) for name in ("delivery", "model", "client"))
    )


def _edges(call: Mapping[str, Any]) -> CallEdges:
    """Return a call's edges. Raises ValueError, TypeError or KeyError for what no export has."""
    shown = [_edge(*one) for one in call["shown"]]
    if len({(edge.kind, edge.event) for edge in shown}) < len(shown):
        raise ValueError("two edges of a type to one event")
    budget = call.get("step_budget", 0.0)
    _check(_are_counts([call.get("rebuilt", 0)]) and _are_counts(call.get("breakpoints", [])))
    _check(type(budget) in (int, float) and 0 <= budget < LATEST)
    _check(all(type(call.get(name, False)) is bool for name in ("is_relative", "is_over")))
    return CallEdges.of(call, shown)


def _edge(kind: str, event: int, fields: Mapping[str, Any] | None = None) -> ShownEvent:
    values = dict(fields or {})
    _check(_are_counts([event]))
    names = set(values)
    if kind in (COMPLETE, EXCERPT) and "next_pieces" in values:
        _check(_are_pieces(values["next_pieces"]) and _are_counts([values["next_tokens"]]))
        names -= NEXT
    if kind in (COMPLETE, DROPPED):
        _check(not names)
        return ShownEvent(kind, event, values)
    _check(_are_pieces(values["pieces"]) and _are_counts([values["tokens"]]))
    if kind == EXCERPT:
        _check(names == {"pieces", "tokens", "kind"} and isinstance(values["kind"], str))
        _check(len(values["kind"]) <= LONGEST_KIND and values["kind"].isprintable())
    else:
        _check(kind == RESTORED and names == {"pieces", "tokens", "behind", "place"})
        _check(_are_counts([values["behind"], values["place"]]))
    return ShownEvent(kind, event, values)


def _are_pieces(pieces: Any) -> bool:
    """Return whether they are texts, and ranges of an event's own text, one behind the other."""
    if not isinstance(pieces, list):
        return False
    numbers = [piece for piece in pieces if not isinstance(piece, str)]
    if len(numbers) % 2 or not _are_counts(numbers):
        return False
    ranges = zip(numbers[::2], numbers[1::2], strict=True)
    end = 0
    for start, length in ranges:
        if start < end:
            return False
        end = start + length
    return True


def _missing(event: int, fields: Mapping[str, Any]) -> ShownEvent:
    _check(_are_counts([event]) and fields.keys() == {"values", "repeated", "names_only"})
    values, flags = fields["values"], (fields["repeated"], fields["names_only"])
    _check(isinstance(values, list) and all(isinstance(value, str) for value in values))
    _check(all(type(flag) is bool for flag in flags))
    return ShownEvent(MISSES, event, dict(fields))


def _leads_to(edge: ShownEvent, kinds: str) -> bool:
    """Return whether an edge leads to one of the events of these kinds that it may lead to."""
    if edge.kind not in (RESTORED, MISSES):
        return edge.event < len(kinds)
    ends = (edge.event, edge.fields.get("behind", edge.event))
    return all(end < len(kinds) and kinds[end] == "r" for end in ends)


def _check(condition: bool) -> None:
    if not condition:
        raise ValueError("not what an export has")


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < LATEST for v in values)
