"""What is recorded of one model call besides what it showed: settings, token counts and usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
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
    are those at the prompt's beginning that the call before had sent, too. `billed` is what the
    provider said it used: tokens not from its cache, read from it, written to it for minutes, for
    an hour, and output; None where it said nothing. `budget` is the call's own in tokens; `faulted`
    says that an automatic one grew because the turn before missed something. Of a call that was
    sent whole it tells of the whole history, whatever its rendering left out.
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
    billed: tuple[int, ...] | None = None
    budget: int = 0
    faulted: bool = False
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
        return replace(self, after=self.before)

    @property
    def full(self) -> int:
        """Tokens of the prompt with the whole history."""
        return self.before + self.outside

    @property
    def prompt(self) -> int:
        """Tokens of the prompt that was sent."""
        return self.after + self.outside

    def is_like(self, other: CallRecord) -> bool:
        """Whether it tells the same of a call made again: what that repeats is not done anew."""
        rest = partial(replace, at=0, shared=0, embedded=0, billed=None)
        return bool(rest(self) == rest(other))

    def fields(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            **UNSET,
            **self.settings.to_json(),
            "at": self.at,
            "results": self.results,
            "tokens": [self.before, self.after, self.outside, self.retained, self.shared],
            "delivery": "" if self.delivery == DELIVERIES[0] else self.delivery,
            "model": self.model,
            "client": self.client,
            "embedded": self.embedded,
            "billed": list(self.billed or ()),
            "own_budget": self.budget if self.budget != self.settings.budget else 0,
            "faulted": self.faulted,
        }

    def to_json(self) -> dict[str, Any]:
        """The same, small: what is not set is left out."""
        fields = self.fields()
        return {name: fields[name] for name in fields if fields[name] or name in ALWAYS}

    @property
    def remaining_tokens(self) -> int:
        """Return the tokens of the call's budget that its prompt left free."""
        return max(0, self.budget - self.after)

    @classmethod
    def of_node(cls, fields: Mapping[str, Any]) -> Self | None:
        """Return the call of a stored node's fields; None if the node is damaged."""
        try:
            return cls.from_json(fields) if isinstance(fields["messages"], int) else None
        except (KeyError, TypeError, ValueError, InvalidRequest):
            return None

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
            delivery=data.get("delivery") or DELIVERIES[0],
            model=data.get("model", ""),
            client=data.get("client", ""),
            embedded=data.get("embedded", 0),
            billed=billed or None,
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
        caller.delivery,
        caller.model,
        caller.client,
        rendered.embedded_tokens,
        budget=rendered.budget,
        faulted=selection.faulted,
    ).as_sent()


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
