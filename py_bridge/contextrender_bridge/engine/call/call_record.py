"""What one model call was shown, noted when it is made: results as runs of their numbers.

Long because it holds the record and its stored form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, Final, Self

from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.settings import DELIVERIES, CallMetadata, RenderSettings
from contextrender_bridge.engine.plan.selection import Selection

UNSET: Final = {
    "parameters": {},
    "agent_defaults": False,
    "window": 0,
    "pinned_tools": [],
    "pinned_calls": [],
}
ALWAYS: Final = ("at", "results")


@dataclass(slots=True, frozen=True)
class CallRecord:
    """One model call, made `at` that second of 1970's with `results` results recorded.

    Tokens `before`, `after` and `outside` are as in `render`, `retained` those of text; `shared`
    are those at the prompt's beginning that the call before had sent, too. `shown` and `replaced`
    are runs of result numbers: first, length, first, length. `billed` is what the provider said it
    used: tokens not from its cache, read from it, written to it for minutes, for an hour, and
    output; None where it said nothing. `budget` is the call's own in tokens; where it finds itself,
    `faulted` tells that the turn before missed something, and `back` are runs of the results that
    came back behind another; `parts` tell what of results stands otherwise than it did at the call
    before, as `parts_since` has it, packed. Of a call that was sent whole it tells of the
    whole history, whatever its rendering left out.
    """

    settings: RenderSettings
    at: int
    results: int
    before: int
    after: int
    outside: int
    retained: int
    shared: int
    shown: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()
    delivery: str = DELIVERIES[0]
    model: str = ""
    client: str = ""
    embedded: int = 0
    billed: tuple[int, ...] | None = None
    budget: int = 0
    faulted: bool = False
    back: tuple[int, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()
    added: int = 0
    """Tokens as in `Bill`, while that is counted."""

    @property
    def sent_full(self) -> bool:
        """Whether the model got the whole history."""
        return self.delivery != DELIVERIES[0]

    def as_sent(self) -> Self:
        """The same, where only `delivery` tells that the whole history went."""
        if not self.sent_full:
            return self
        return replace(
            self, after=self.before, shown=runs(range(self.results)), replaced=(), back=()
        )

    @property
    def full(self) -> int:
        """Tokens of the prompt with the whole history."""
        return self.before + self.outside

    @property
    def prompt(self) -> int:
        """Tokens of the prompt that was sent."""
        return self.after + self.outside

    @property
    def in_view(self) -> set[int]:
        """The results that the model had complete."""
        return set(numbers_in(self.shown))

    def is_like(self, other: CallRecord) -> bool:
        """Whether it tells the same of a call made again: what that repeats is not done anew."""
        rest = partial(replace, at=0, shared=0, embedded=0, billed=None, parts=())
        return bool(rest(self) == rest(other))

    def fields(self) -> dict[str, Any]:
        """As plain values, runs told by their distances."""
        return {
            **UNSET,
            **self.settings.to_json(),
            "at": self.at,
            "results": self.results,
            "tokens": [self.before, self.after, self.outside, self.retained, self.shared],
            "shown": packed(self.shown),
            "replaced": packed(self.replaced),
            "delivery": "" if self.delivery == DELIVERIES[0] else self.delivery,
            "model": self.model,
            "client": self.client,
            "embedded": self.embedded,
            "billed": list(self.billed or ()),
            "own_budget": self.budget if self.budget != self.settings.budget else 0,
            "faulted": self.faulted,
            "back": packed(self.back),
            "parts": [list(part) for part in self.parts],
        }

    def to_json(self) -> dict[str, Any]:
        """The same, small: what is not set is left out."""
        fields = self.fields()
        return {name: fields[name] for name in fields if fields[name] or name in ALWAYS}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From what `fields` or `to_json` gave."""
        billed = tuple(data.get("billed") or ())
        before, after, outside, retained, shared = data["tokens"]
        return cls(
            settings := RenderSettings.of(data),
            data["at"],
            data["results"],
            before,
            after,
            outside,
            retained,
            shared,
            shown=unpacked(data.get("shown", ())),
            replaced=unpacked(data.get("replaced", ())),
            delivery=data.get("delivery") or DELIVERIES[0],
            model=data.get("model", ""),
            client=data.get("client", ""),
            embedded=data.get("embedded", 0),
            billed=billed or None,
            budget=data.get("own_budget") or settings.budget,
            faulted=data.get("faulted", False),
            back=unpacked(data.get("back", ())),
            parts=tuple(map(tuple, data.get("parts", ()))),
        ).as_sent()


def record_of(
    rendered: RenderedCall,
    settings: RenderSettings,
    at: int,
    previous: Selection | None,
    caller: CallMetadata,
) -> CallRecord:
    """Return the record of a call; `previous` is what the call before it showed.

    Where the caller sends the full history, it tells of that.
    """
    history, selection = rendered.view.history, rendered.selection
    text, sent_selection = rendered.text_tokens, selection
    if caller.delivery != DELIVERIES[0]:
        text = sum(history.text_tokens) - rendered.view.unbudgeted_tokens
        sent_selection = selection.in_full(history)
    shared = sent_selection.tokens_in(
        history, sent_selection.shared_messages(previous, history.results)
    )
    return CallRecord(
        settings,
        at,
        len(history.results.message),
        rendered.tokens_before,
        rendered.tokens_after,
        rendered.view.unbudgeted_tokens,
        text,
        shared,
        runs(selection.complete),
        runs(selection.excerpts),
        caller.delivery,
        caller.model,
        caller.client,
        rendered.embedded_tokens,
        budget=rendered.budget,
        faulted=selection.faulted,
        back=runs(selection.restored_results),
        parts=tuple((*part[:2], *packed(part[2:])) for part in parts_since(selection, previous)),
    ).as_sent()


def parts_since(selection: Selection, previous: Selection | None) -> list[tuple[int, ...]]:
    """Return what is shown in part otherwise than before: the result with whose text it stands,
    the result that it is of, and its characters, as runs. The first alone: no more."""
    if not selection.rebuilt:
        return []
    before = previous or Selection(0)
    found: list[tuple[int, ...]] = []
    for result, made in selection.excerpts.items():
        if before.excerpts.get(result) != made:
            found.append((result, result, *made.ranges))
    for host, text in selection.restored.items():
        if before.restored.get(host) != text:
            found += [(host, part.result, *part.ranges) for part in text.parts]
    gone = before.restored.keys() - selection.restored.keys() - selection.excerpts.keys()
    return found + [(host,) for host in sorted(gone)]


@dataclass(slots=True, frozen=True)
class Standing:
    """Which results stood in a call's prompt, by number; in part also those that came back."""

    complete: frozenset[int]
    replaced: frozenset[int]

    @classmethod
    def of(cls, rendered: RenderedCall) -> Self:
        """That of a rendering."""
        return cls(frozenset(rendered.selection.complete), rendered.selection.partial)

    @classmethod
    def noted(cls, record: CallRecord) -> Self:
        """That of a call that was noted."""
        shown, back = frozenset(numbers_in(record.shown)), frozenset(numbers_in(record.back))
        return cls(shown, frozenset(numbers_in(record.replaced)) | back - shown)

    def differing(self, other: Self) -> set[int]:
        """The results that stood otherwise in another prompt."""
        return set((self.complete ^ other.complete) | (self.replaced ^ other.replaced))


NOTHING: Final = Standing(frozenset(), frozenset())


def changes(now: CallRecord, before: CallRecord | None) -> Mapping[str, set[int]]:
    """The results that came into view with a call, in whole or in part, and those that left, by the
    type of the edge that says so."""
    then = Standing.noted(before) if before is not None else NOTHING
    here = Standing.noted(now)
    return {
        "ShowsComplete": set(here.complete - then.complete),
        "ShowsExcerpt": set(here.replaced - then.replaced),
        "Drops": set((then.complete | then.replaced) - (here.complete | here.replaced)),
    }


def runs(results: Iterable[int]) -> tuple[int, ...]:
    """Numbers as runs: the first of each run of neighbours, and its length."""
    found: list[int] = []
    for result in sorted(results):
        if found and found[-2] + found[-1] == result:
            found[-1] += 1
        else:
            found += [result, 1]
    return tuple(found)


def numbers_in(found: Sequence[int]) -> list[int]:
    """The numbers of runs."""
    pairs = zip(found[::2], found[1::2], strict=True)
    return [number for first, length in pairs for number in range(first, first + length)]


def packed(found: Sequence[int]) -> list[int]:
    """Runs as distances: from the last one's end to the next one's first, and lengths."""
    told, end = list(found), 0
    for at in range(0, len(told), 2):
        told[at], end = told[at] - end, told[at] + told[at + 1]
    return told


def unpacked(distances: Sequence[int]) -> tuple[int, ...]:
    """The runs that `packed` told by distances. Raises ValueError for half a pair."""
    if len(distances) % 2:
        raise ValueError("runs are pairs of numbers")
    found = list(distances)
    found[::2] = list(accumulate(distances))[::2]
    return tuple(found)
