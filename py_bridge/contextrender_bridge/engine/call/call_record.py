"""The record of one model call: its settings, token counts and usage, without its selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.settings import DELIVERIES, CallMetadata, RenderSettings
from contextrender_bridge.engine.plan.selection import Selection

UNSET_FIELDS: Final = {
    "parameters": {},
    "agent_defaults": False,
    "window": 0,
    "pinned_tools": [],
    "pinned_calls": [],
}
"""The settings that `RenderSettings.to_json` omits by default, as they are stored."""

REQUIRED_FIELDS: Final = ("at", "results")
"""The fields that an export has even if they are 0."""


@dataclass(slots=True, frozen=True)
class CallRecord:
    """One model call, made at `at` (seconds since 1970) with `results` results before it.

    - `before` and `after` are the budgeted tokens of the history and of the prompt; `outside` are
      the unbudgeted tokens, and `retained` those of the prompt's texts. For a call that was sent in
      full, they are those of the full history.
    - `shared` is the tokens at the prompt's beginning that the prompt of the call before had, too.
    - `usage` has the provider's counts in the order of `TOKEN_FIELDS`, None if it reported none.
    - `budget` is the call's own in tokens. `faulted`: the turn before had a miss.
    - `added` is the `added_tokens` of `ProviderUsage`. It is not stored.
    """

    settings: RenderSettings
    at: int
    results: int
    before: int
    after: int
    outside: int
    retained: int
    shared: int
    delivery: str = DELIVERIES[0]
    model: str = ""
    client: str = ""
    embedded: int = 0
    usage: tuple[int, ...] | None = None
    budget: int = 0
    faulted: bool = False
    added: int = 0

    @property
    def sent_full(self) -> bool:
        """True if the model received the full history."""
        return self.delivery != DELIVERIES[0]

    def as_sent(self) -> Self:
        """Return the record with the tokens of the full history, if that was sent."""
        if not self.sent_full:
            return self
        return replace(self, after=self.before)

    @property
    def full(self) -> int:
        """The tokens of the prompt with the full history."""
        return self.before + self.outside

    @property
    def prompt(self) -> int:
        """The tokens of the prompt that was sent."""
        return self.after + self.outside

    def is_like(self, other: CallRecord) -> bool:
        """Return whether the other call repeats this one, apart from its time and usage."""
        comparable = partial(replace, at=0, shared=0, embedded=0, usage=None)
        return bool(comparable(self) == comparable(other))

    def fields(self) -> dict[str, Any]:
        """Return the fields that are stored."""
        return {
            **UNSET_FIELDS,
            **self.settings.to_json(),
            "at": self.at,
            "results": self.results,
            "tokens": [self.before, self.after, self.outside, self.retained, self.shared],
            "delivery": "" if self.delivery == DELIVERIES[0] else self.delivery,
            "model": self.model,
            "client": self.client,
            "embedded": self.embedded,
            "usage": list(self.usage or ()),
            "own_budget": self.budget if self.budget != self.settings.budget else 0,
            "faulted": self.faulted,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        fields = self.fields()
        return {name: fields[name] for name in fields if fields[name] or name in REQUIRED_FIELDS}

    @property
    def remaining_tokens(self) -> int:
        """The tokens of the call's budget that its prompt did not use."""
        return max(0, self.budget - self.after)

    @classmethod
    def of_node(cls, fields: Mapping[str, Any]) -> Self | None:
        """Return the record of a stored node's fields, or None if the node is corrupted."""
        try:
            return cls.from_json(fields) if isinstance(fields["messages"], int) else None
        except (KeyError, TypeError, ValueError, InvalidRequest):
            return None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the record of the values that `fields` or `to_json` returned."""
        settings = RenderSettings.of(data)
        before, after, outside, retained, shared = data["tokens"]
        return cls(
            settings=settings,
            at=data["at"],
            results=data["results"],
            before=before,
            after=after,
            outside=outside,
            retained=retained,
            shared=shared,
            delivery=data.get("delivery") or DELIVERIES[0],
            model=data.get("model", ""),
            client=data.get("client", ""),
            embedded=data.get("embedded", 0),
            usage=tuple(data.get("usage") or ()) or None,
            budget=data.get("own_budget") or settings.budget,
            faulted=data.get("faulted", False),
        ).as_sent()


def record_of(
    rendered: RenderedCall,
    settings: RenderSettings,
    at: int,
    previous: Selection | None,
    caller: CallMetadata,
) -> CallRecord:
    """Return the record of a call. `previous` is the selection of the call before it.

    If the caller sends the full history, the record has the tokens of that.
    """
    history, sent_selection = rendered.view.history, rendered.selection
    text_tokens = rendered.text_tokens
    if caller.delivery != DELIVERIES[0]:
        text_tokens = sum(history.text_tokens) - rendered.view.unbudgeted_tokens
        sent_selection = rendered.selection.in_full(history)
    shared_messages = sent_selection.shared_messages(previous, history.results)
    return CallRecord(
        settings=settings,
        at=at,
        results=len(history.results.message),
        before=rendered.tokens_before,
        after=rendered.tokens_after,
        outside=rendered.view.unbudgeted_tokens,
        retained=text_tokens,
        shared=sent_selection.tokens_in(history, shared_messages),
        delivery=caller.delivery,
        model=caller.model,
        client=caller.client,
        embedded=rendered.embedded_tokens,
        budget=rendered.budget,
        faulted=rendered.selection.faulted,
    ).as_sent()


def runs(results: Iterable[int]) -> tuple[int, ...]:
    """Return numbers as runs of consecutive numbers: first, length, first, length and so on."""
    flat_runs: list[int] = []
    end = -1
    for result in sorted(results):
        if result == end:
            flat_runs[-1] += 1
        else:
            flat_runs += [result, 1]
        end = result + 1
    return tuple(flat_runs)


def numbers_in(runs: Sequence[int]) -> list[int]:
    """Return the numbers of the runs that `runs` returned."""
    numbers: list[int] = []
    for first, length in zip(runs[::2], runs[1::2], strict=True):
        numbers += range(first, first + length)
    return numbers
