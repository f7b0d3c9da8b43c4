"""The record of one model call: its settings, token counts and usage, without its selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.usage import NO_REPLY, ProviderReply
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.settings import RENDERED, CallMetadata, RenderSettings
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.policies import policy_named

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
    """One model call, made at `at` (seconds since 1970) with `result_count` results before it.

    - `tokens_before` and `tokens_after` are the budgeted tokens of the history and of the prompt.
      `unbudgeted_tokens` are the tokens of the system prompt and the current user message.
      `text_tokens` are the budgeted tokens of the prompt's texts, without results and calls.
    - `shared_tokens` are the tokens of the first messages that are the same in this prompt and in
      the prompt of the call before.
    - `usage` has the provider's counts in the order of `TOKEN_FIELDS`, None if it reported none.
    - `budget` is the budget of this call in tokens. `follows_miss` is true if the turn before had a
      miss.
    - `added_tokens` are the tokens of our own recall tool in the request. They are not stored.
    """

    settings: RenderSettings
    at: int
    result_count: int
    tokens_before: int
    tokens_after: int
    unbudgeted_tokens: int
    text_tokens: int
    shared_tokens: int
    delivery: str = RENDERED
    model: str = ""
    client: str = ""
    embedded_tokens: int = 0
    usage: tuple[int, ...] | None = None
    budget: int = 0
    follows_miss: bool = False
    reply: ProviderReply = NO_REPLY
    added_tokens: int = 0

    @property
    def sent_full(self) -> bool:
        """True if the model received the full history."""
        return self.delivery != RENDERED

    @property
    def has_reasons(self) -> bool:
        """True if the recorded calls explain why the call shows or omits each result.

        They do if the policy is cache-aware and its rendering was sent. Then each call continues
        the prompt before it, so a result is shown as the last change left it. Otherwise the call
        must be rendered again to find the reasons.
        """
        return policy_named(self.settings.policy).is_cache_aware and not self.sent_full

    def with_sent_tokens(self) -> Self:
        """Return the record with the tokens of the prompt that was sent.

        If that was the full history, `tokens_after` is the same as `tokens_before`.
        """
        return replace(self, tokens_after=self.tokens_before) if self.sent_full else self

    @property
    def full(self) -> int:
        """The tokens of the full history, with the unbudgeted tokens."""
        return self.tokens_before + self.unbudgeted_tokens

    @property
    def prompt(self) -> int:
        """The tokens of the prompt that was sent, with the unbudgeted tokens."""
        return self.tokens_after + self.unbudgeted_tokens

    def is_like(self, other: CallRecord) -> bool:
        """Return whether another call has the same settings and prompt.

        The calls may differ in their times, usage, replies, embedded tokens and shared tokens.
        """
        ignored_fields: dict[str, Any] = {
            "at": 0,
            "shared_tokens": 0,
            "embedded_tokens": 0,
            "usage": None,
            "reply": NO_REPLY,
        }
        without_ignored = partial(replace, **ignored_fields)
        return bool(without_ignored(self) == without_ignored(other))

    def fields(self) -> dict[str, Any]:
        """Return the fields as they are stored.

        `own_budget` is 0 if the call's budget is the budget of the settings. `faulted` is the
        stored name of `follows_miss`. `delivery` is "" for a rendered prompt.
        """
        return {
            **UNSET_FIELDS,
            **self.settings.to_json(),
            "at": self.at,
            "results": self.result_count,
            "tokens": [
                self.tokens_before,
                self.tokens_after,
                self.unbudgeted_tokens,
                self.text_tokens,
                self.shared_tokens,
            ],
            "delivery": "" if self.delivery == RENDERED else self.delivery,
            "model": self.model,
            "client": self.client,
            "embedded": self.embedded_tokens,
            "usage": list(self.usage or ()),
            "own_budget": self.budget if self.budget != self.settings.budget else 0,
            "faulted": self.follows_miss,
            "reply": self.reply.to_json() if self.reply != NO_REPLY else {},
        }

    def to_json(self) -> dict[str, Any]:
        """Return the stored fields as in an export, without those that are not set."""
        fields = self.fields()
        return {name: fields[name] for name in fields if fields[name] or name in REQUIRED_FIELDS}

    @property
    def remaining_tokens(self) -> int:
        """The tokens of the call's budget that its prompt did not use."""
        return max(0, self.budget - self.tokens_after)

    @classmethod
    def of_node(cls, fields: Mapping[str, Any]) -> Self | None:
        """Return the record of a stored node's fields, or None if the node is corrupted."""
        try:
            return cls.from_json(fields) if isinstance(fields["messages"], int) else None
        except (KeyError, TypeError, ValueError, InvalidRequest):
            return None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the record from the values that `fields` or `to_json` returned.

        Raise KeyError, TypeError, ValueError or InvalidRequest if they are not valid.
        """
        settings = RenderSettings.of(data)
        # Fields with their default value may be missing or empty.
        tokens_before, tokens_after, unbudgeted_tokens, text_tokens, shared_tokens = data["tokens"]
        return cls(
            settings=settings,
            at=data["at"],
            result_count=data["results"],
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            unbudgeted_tokens=unbudgeted_tokens,
            text_tokens=text_tokens,
            shared_tokens=shared_tokens,
            delivery=data.get("delivery") or RENDERED,
            model=data.get("model", ""),
            client=data.get("client", ""),
            embedded_tokens=data.get("embedded", 0),
            usage=tuple(data.get("usage") or ()) or None,
            budget=data.get("own_budget") or settings.budget,
            follows_miss=data.get("faulted", False),
            reply=ProviderReply.of(reply) if (reply := data.get("reply")) else NO_REPLY,
        ).with_sent_tokens()  # imported data may have a wrong count for a full history


def record_of(
    rendered: RenderedCall,
    selection: Selection,
    settings: RenderSettings,
    at: int,
    previous: Selection | None,
    caller: CallMetadata,
) -> CallRecord:
    """Return the record of a call made at `at` (seconds since 1970), without usage.

    `selection` is what the model receives. `previous` is the selection of the call before it on the
    branch. It is None if there is no such call, or if its selection is unknown. If the caller sends
    the full history instead of the rendering, the record has the token counts of the full history.
    """
    history, text_tokens = rendered.context.history, rendered.text_tokens
    if caller.delivery != RENDERED:
        # All texts are sent. The system prompt and the current user message are unbudgeted, so they
        # are subtracted. `with_sent_tokens` below sets `tokens_after`.
        text_tokens = history.text_totals[-1] - rendered.context.unbudgeted_tokens
    return CallRecord(
        settings=settings,
        at=at,
        result_count=len(history.results.message),
        tokens_before=rendered.tokens_before,
        tokens_after=rendered.tokens_after,
        unbudgeted_tokens=rendered.context.unbudgeted_tokens,
        text_tokens=text_tokens,
        shared_tokens=selection.shared_tokens(previous, history),
        delivery=caller.delivery,
        model=caller.model,
        client=caller.client,
        embedded_tokens=rendered.embedded_tokens,
        budget=rendered.budget,
        follows_miss=rendered.selection.follows_miss,
    ).with_sent_tokens()


def to_runs(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return numbers as runs of consecutive numbers: first, length, first, length and so on.

    For example, 2, 3, 4 and 9 are the runs (2, 3, 9, 1).
    """
    flat_runs: list[int] = []
    end = -1  # the number after the last run
    for number in sorted(numbers):
        if number == end:
            flat_runs[-1] += 1
        else:
            flat_runs += [number, 1]
        end = number + 1
    return tuple(flat_runs)
