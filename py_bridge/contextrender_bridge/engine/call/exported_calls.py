"""Model calls in an exported session: writing them as JSON, and reading and checking this JSON.

Long because the writer leaves out what the reader would refuse, so both are in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.usage import COUNT_LIMIT, TOKEN_FIELDS, are_counts
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.settings import RENDERED, SETTINGS, CallMetadata
from contextrender_bridge.engine.plan.selection_edges import (
    COMPLETE,
    DROPPED,
    EXCERPT,
    MISSES,
    RESTORED,
    CallEdge,
    CallEdges,
)
from contextrender_bridge.engine.text.transcript import Json

RECORD_FIELDS: Final = frozenset(
    {
        *SETTINGS,
        *("at", "results", "own_budget", "faulted"),
        *("tokens", "delivery", "model", "client", "embedded", "usage", "reply"),
    }
)
EDGE_FIELDS: Final = frozenset({"shown", "is_relative", "is_over", "rebuilt", "breakpoints"})
OTHER_FIELDS: Final = frozenset({"position", "again", "step_budget", "misses"})
TOKEN_COUNTS: Final = 5
"""The number of counts in the field `tokens` of a record."""
MAX_KIND_LENGTH: Final = 40
NEXT_FIELDS: Final = frozenset({"next_pieces", "next_tokens"})
"""Additional fields of an edge to a result, if the next call shows another excerpt of it."""
FORMAT_ERROR: Final = "{field_path}.calls must have the format that export_session writes"


@dataclass(slots=True, frozen=True)
class ExportedCall:
    """A model call that had the first `messages` messages of its branch.

    `repeated` is true if the call was made again when the branch already had later messages.
    `edges` store its selection. They are None if one of them is missing in the store. `miss_edges`
    lead to the results that the call's answer used although the prompt did not show them.
    """

    messages: int
    repeated: bool
    record: CallRecord
    edges: CallEdges | None
    miss_edges: tuple[CallEdge, ...]

    def to_json(self) -> Json:
        """Return the call in the format of exports, without the fields that are not set.

        In the format, `messages` is named "position", `repeated` "again", and `miss_edges`
        "misses". An edge with damaged fields could not be imported. So leave out the whole
        selection if one of its edges is damaged, and leave out damaged edges to misses.
        """
        # The record, whose fields are on the same level as all others.
        call: Json = {"position": self.messages, **self.record.to_json()}
        if self.repeated:
            call["again"] = True
        # The selection: the fields of the call's node, and the edges as [kind, event, fields].
        if self.edges is not None and all(
            _is_readable(_edge, edge.kind, edge.event, edge.fields) for edge in self.edges.edges
        ):
            fields = self.edges.fields()
            call |= {name: fields[name] for name in fields if fields[name]}
            call["shown"] = [
                [edge.kind, edge.event, *([dict(edge.fields)] if edge.fields else ())]
                for edge in self.edges.edges
            ]
        # The edges to misses as [event, fields].
        misses = [[edge.event, dict(edge.fields)] for edge in self.miss_edges]
        if misses := [miss for miss in misses if _is_readable(_miss_edge, *miss)]:
            call["misses"] = misses
        return call


RESULT_KIND, TEXT_KIND, CALL_KIND = "r", "m", "c"
"""The kinds of events: a tool result, another message's text, and a tool call."""


def event_kinds_of(messages: Iterable[Json]) -> list[str]:
    """Return the kinds of each message's events, such as "mcc" for a message with two calls."""
    kinds: list[str] = []
    for message in messages:
        is_assistant = message["role"] == "assistant"
        calls = (message.get("tool_calls") or ()) if is_assistant else ()
        if message["role"] == "tool":
            kinds.append(RESULT_KIND)
        else:
            kinds.append(TEXT_KIND + CALL_KIND * len(calls))
    return kinds


def read_calls(
    data: Sequence[Any], field_path: str, fork: int, event_kinds: Sequence[str]
) -> list[ExportedCall]:
    """Return the calls of a branch that shares the first `fork` messages with its parent.

    `event_kinds` has a text for each message of the branch, also for shared ones, with one letter
    for each event of the message (`event_kinds_of`). `field_path` names the branch in errors. Raise
    InvalidRequest if a call does not have the format of exports, or refers to an event that does
    not come before the call.
    """
    events_before = list(accumulate(map(len, event_kinds), initial=0))  # by message position
    all_kinds = "".join(event_kinds)
    calls: dict[tuple[int, bool], ExportedCall] = {}
    for item in data:
        # A call before the fork belongs to the parent, and is exported there.
        position = item.get("position") if isinstance(item, Mapping) else None
        if type(position) is not int or not max(fork, 1) <= position <= len(event_kinds):
            raise InvalidRequest(f"{field_path}.calls must each have a position within the branch")
        call = _call(item, position, field_path)
        if not _refers_only_to(all_kinds[: events_before[position]], call):
            raise InvalidRequest(f"{field_path}.calls refer to a result that was not there yet")
        # A call and its repetition may have the same position, but no two others.
        if calls.setdefault((position, call.repeated), call) is not call:
            raise InvalidRequest(f"{field_path}.calls must each have a position of their own")
    return [calls[key] for key in sorted(calls)]


def _refers_only_to(kinds_before: str, call: ExportedCall) -> bool:
    """Return whether a call refers only to events before it.

    `kinds_before` has one letter for each event before the call, its kind.
    """
    if call.record.result_count > kinds_before.count(RESULT_KIND):
        return False
    edges = [*(call.edges.edges if call.edges else ()), *call.miss_edges]
    return all(_leads_to(edge, kinds_before) for edge in edges)


def _call(call: Mapping[str, Any], position: int, field_path: str) -> ExportedCall:
    """Return a call. Raise InvalidRequest if it does not have the format of exports."""
    repeated = call.get("again", False)
    record = {name: call[name] for name in RECORD_FIELDS & call.keys()}
    has_known_fields = call.keys() <= RECORD_FIELDS | EDGE_FIELDS | OTHER_FIELDS
    if not has_known_fields or type(repeated) is not bool or not _is_record(record):
        raise InvalidRequest(FORMAT_ERROR.format(field_path=field_path))
    # This raises InvalidRequest for an invalid value.
    CallMetadata.of(call.get("delivery") or RENDERED, call.get("model", ""), call.get("client", ""))
    try:
        edges = _edges(call) if "shown" in call else None
        miss_edges = tuple(_miss_edge(*edge) for edge in call.get("misses", ()))
    except (ValueError, TypeError, KeyError):
        raise InvalidRequest(FORMAT_ERROR.format(field_path=field_path)) from None
    return ExportedCall(position, repeated, CallRecord.from_json(record), edges, miss_edges)


def _is_record(call: Mapping[str, Any]) -> bool:
    """Return whether a call's record has valid fields: their types, and numbers within limits."""
    tokens, usage = call.get("tokens"), call.get("usage", [])
    counts = [call.get("at"), call.get("results"), call.get("embedded", 0)]
    return (
        _are_counts([*counts, call.get("own_budget", 0)])
        and _are_counts(tokens)
        and len(tokens or ()) == TOKEN_COUNTS
        and _are_counts(usage)
        and len(usage) in (0, len(TOKEN_FIELDS))
        and isinstance(call.get("faulted", False), bool)
        and all(isinstance(call.get(name, ""), str) for name in ("delivery", "model", "client"))
    )


def _edges(call: Mapping[str, Any]) -> CallEdges:
    """Return the edges of an exported call, and the fields that `CallEdges` stores with them.

    Raise ValueError, TypeError or KeyError for a wrong format.
    """
    edges = [_edge(*edge) for edge in call["shown"]]
    distinct_edges = {(edge.kind, edge.event) for edge in edges}
    _check(len(distinct_edges) == len(edges))
    budget = call.get("step_budget", 0.0)
    _check(_are_counts([call.get("rebuilt", 0)]) and _are_counts(call.get("breakpoints", [])))
    _check(type(budget) in (int, float) and 0 <= budget < COUNT_LIMIT)
    _check(all(type(call.get(name, False)) is bool for name in ("is_relative", "is_over")))
    return CallEdges.of(call, edges)


def _edge(kind: str, event: int, fields: Mapping[str, Any] | None = None) -> CallEdge:
    """Return the edge from a call to an event that it shows, drops or restores.

    `fields` must be exactly the fields of this kind of edge, as `edges_of` writes them
    (engine.plan.selection_edges). Raise ValueError, TypeError or KeyError for a wrong format.
    """
    values = dict(fields or {})
    _check(_are_counts([event]))
    names = set(values)
    # If the next call shows a shorter excerpt of the event, this edge also has that excerpt.
    if kind in (COMPLETE, EXCERPT) and "next_pieces" in values:
        _check(_are_pieces(values["next_pieces"]) and _are_counts([values["next_tokens"]]))
        names -= NEXT_FIELDS
    if kind in (COMPLETE, DROPPED):  # they have no other fields
        _check(not names)
        return CallEdge(kind, event, values)
    # An excerpt or a restored part: both have a text and its number of tokens.
    _check(_are_pieces(values["pieces"]) and _are_counts([values["tokens"]]))
    if kind == EXCERPT:
        _check(names == {"pieces", "tokens", "kind"} and isinstance(values["kind"], str))
        _check(len(values["kind"]) <= MAX_KIND_LENGTH and values["kind"].isprintable())
    else:
        # A restored part is shown after another result, the host. `place` is its index there.
        _check(kind == RESTORED and names == {"pieces", "tokens", "host_event", "place"})
        _check(_are_counts([values["host_event"], values["place"]]))
    return CallEdge(kind, event, values)


def _are_pieces(pieces: Any) -> bool:
    """Return whether `pieces` is a list as `pieces_of` returns it.

    It has texts and numbers. Pairs of numbers are ranges (start, length), which are in order and do
    not overlap.
    """
    if not isinstance(pieces, list):
        return False
    numbers = [piece for piece in pieces if not isinstance(piece, str)]
    if len(numbers) % 2 or not _are_counts(numbers):
        return False
    end = 0
    for start, length in zip(numbers[::2], numbers[1::2], strict=True):
        if start < end:
            return False
        end = start + length
    return True


def _miss_edge(event: int, fields: Mapping[str, Any]) -> CallEdge:
    """Return an edge to a result that the answer used and the prompt did not show complete.

    `event` is the result's event number. Raise ValueError or KeyError for a wrong format.
    """
    _check(_are_counts([event]) and fields.keys() == {"values", "repeated", "names_only"})
    values, flags = fields["values"], (fields["repeated"], fields["names_only"])
    _check(isinstance(values, list) and all(isinstance(value, str) for value in values))
    _check(all(type(flag) is bool for flag in flags))
    return CallEdge(MISSES, event, dict(fields))


def _leads_to(edge: CallEdge, kinds: str) -> bool:
    """Return whether an edge leads to one of the events whose `kinds` are given, one letter each.

    The edge of a restored part and of a miss must lead to a result. The host of a restored part
    must also be a result.
    """
    if edge.kind not in (RESTORED, MISSES):
        return edge.event < len(kinds)
    result_events = (edge.event, edge.fields.get("host_event", edge.event))
    return all(event < len(kinds) and kinds[event] == RESULT_KIND for event in result_events)


def _is_readable(read: Callable[..., CallEdge], *values: Any) -> bool:
    """Return whether `read` accepts the values of an edge."""
    try:
        read(*values)
    except (ValueError, TypeError, KeyError):
        return False
    return True


def _check(condition: bool) -> None:
    """Raise ValueError unless the condition is true."""
    if not condition:
        raise ValueError("not what an export has")


def _are_counts(values: Any) -> bool:
    """Return whether this is a list of whole numbers from 0 and below `COUNT_LIMIT`."""
    return isinstance(values, list) and are_counts(values)
