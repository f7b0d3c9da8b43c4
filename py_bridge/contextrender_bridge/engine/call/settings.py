"""How a session is rendered by default, how one call differs, and what a caller says of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.setting_kinds import LIVE_POLICY
from contextrender_bridge.engine.parameters import (
    AUTO,
    NAMES,
    NO_PINS,
    Parameters,
    Pins,
    budget_name,
    check_budget,
)
from contextrender_bridge.engine.policies import DEFAULT_POLICY, policy_named

DEFAULT_BUDGET = 6_000
DELIVERIES: Final = ("rendered", "full", "holdout")
"""What went to the model: the rendering, the whole history, or that for comparison's sake."""
LONGEST_NAME: Final = 80
SETTINGS: Final = ("budget", "policy", "parameters", "agent_defaults", "window", *NAMES)


@dataclass(slots=True, frozen=True)
class RenderSettings:
    """The budget in tokens (or `AUTO`), the policy by name, and the method's parameters.

    With `agent_defaults` the newest results are always shown; `pins` are results that
    the caller wants kept. `window` is the most tokens the model takes, 0 where that is not known: a
    budget that finds itself keeps to it.
    """

    budget: int = DEFAULT_BUDGET
    policy: str = DEFAULT_POLICY
    parameters: Parameters = field(default_factory=Parameters)
    agent_defaults: bool = False
    pins: Pins = NO_PINS
    window: int = 0

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """These with some changed: `budget`, `policy`, `parameters` (by name), and pins.

        Raises InvalidRequest for an unknown name or a value that is not what it should be.
        """
        try:
            return self._updated(changes)
        except InvalidRequest as wrong:
            # For clients that let a model call go on whatever is wrong with it, but for this.
            raise InvalidRequest(wrong.message, setting=True) from None

    def of_model(self, window: int | None) -> Self:
        """These for a model with that window, where it matters."""
        return replace(self, window=window or 0) if self.budget == AUTO else self

    @staticmethod
    def of(noted: Mapping[str, Any]) -> RenderSettings:
        """From what `to_json` gave, among other things. Raises InvalidRequest."""
        told = {name: value for name in SETTINGS if (value := noted.get(name)) is not None}
        return _told(json.dumps(told))

    def to_json(self) -> dict[str, Any]:
        """As plain values, without what is not set."""
        return deepcopy(_as_json(self))

    def _updated(self, changes: Mapping[str, Any]) -> Self:
        unknown = set(changes) - set(SETTINGS)
        if unknown:
            raise InvalidRequest(
                f"no setting {min(unknown)!r:.40}; there are budget, policy, parameters, "
                + ", ".join(NAMES)
            )
        settings = self
        if (budget := changes.get("budget")) is not None:
            settings = replace(settings, budget=check_budget(budget))
        if changes.get("agent_defaults") is not None:
            settings = replace(settings, agent_defaults=bool(changes["agent_defaults"]))
        if changes.get("window") is not None:
            settings = replace(settings, window=_window(changes["window"]))
        if (policy := changes.get("policy")) is not None:
            policy_named(policy if isinstance(policy, str) else "")
            settings = replace(settings, policy=policy)
        if (parameters := changes.get("parameters")) is not None:
            if not isinstance(parameters, Mapping):
                raise InvalidRequest("parameters must be an object of numbers by name")
            settings = replace(settings, parameters=settings.parameters.updated(parameters))
        if any(changes.get(name) is not None for name in NAMES):
            settings = replace(settings, pins=settings.pins.updated(changes))
        return settings


@lru_cache(256)
def _as_json(settings: RenderSettings) -> dict[str, Any]:
    usual = Parameters()
    changed = {
        each.name: value
        for each in fields(usual)
        if (value := getattr(settings.parameters, each.name)) != getattr(usual, each.name)
    }
    return {
        "budget": budget_name(settings.budget),
        "policy": settings.policy,
        **({"parameters": changed} if changed else {}),
        **({"agent_defaults": True} if settings.agent_defaults else {}),
        **({"window": settings.window} if settings.window else {}),
        **settings.pins.to_json(),
    }


@lru_cache(256)
def _told(settings: str) -> RenderSettings:
    """Settings as JSON: of a session's calls most have the same."""
    return RenderSettings().updated(json.loads(settings))


def _window(window: object) -> int:
    if type(window) is not int or window < 0:
        raise InvalidRequest("window must be a whole number of tokens")
    return window


AGENT_SETTINGS = RenderSettings(budget=AUTO, policy=LIVE_POLICY, agent_defaults=True)
"""What serves a live agent best (`docs/policies.md`): the default of `fit`, proxy and adapters."""


def asks(changes: Mapping[str, Any]) -> bool:
    """Whether any setting is asked for; those that a caller left out are None."""
    return any(value is not None for value in changes.values())


@dataclass(slots=True, frozen=True)
class SettingsByTurn:
    """Settings from a turn on, where they changed; those of calls before the first are `rest`."""

    rest: RenderSettings
    changes: tuple[tuple[int, RenderSettings], ...] = ()

    @classmethod
    def of(cls, calls: Iterable[tuple[int, RenderSettings]], rest: RenderSettings) -> Self:
        """From the calls that are known, by turn, in order."""
        changes: list[tuple[int, RenderSettings]] = []
        for turn, settings in calls:
            if not changes or changes[-1][1] != settings:
                changes.append((turn, settings))
        return cls(rest, tuple(changes))

    def at(self, turn: int) -> RenderSettings:
        """The settings of a call: if it is not known, those of the last known one before it."""
        known = [settings for first, settings in self.changes if first <= turn]
        return known[-1] if known else self.rest

    def before(self, turn: int | None) -> RenderSettings:
        """The settings of a call; without a turn, those that the next one has unless it says so.

        A live agent's next call has those of its last one.
        """
        if turn is not None:
            return self.at(turn)
        last = self.changes[-1][1] if self.changes else self.rest
        return last if last.agent_defaults else self.rest

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """The same with something changed in all of them. Raises InvalidRequest."""
        return type(self)(
            self.rest.updated(changes),
            tuple((turn, settings.updated(changes)) for turn, settings in self.changes),
        )


@dataclass(slots=True, frozen=True)
class CallMetadata:
    """What a caller says of its model call: what it will send, the model, and its own name."""

    delivery: str = DELIVERIES[0]
    model: str = ""
    client: str = ""

    @classmethod
    def of(cls, delivery: str = DELIVERIES[0], model: str = "", client: str = "") -> Self:
        """From outside; a model's long name is cut. Raises InvalidRequest."""
        check_delivery(delivery)
        if len(client) > LONGEST_NAME or not client.isprintable():
            raise InvalidRequest(f"client must have up to {LONGEST_NAME} printable characters")
        return cls(delivery, short_name(model), client)

    def calling(self, model: str) -> Self:
        """The same, of that model unless it is known."""
        return self if self.model else replace(self, model=short_name(model))


def check_delivery(delivery: str) -> None:
    """Raises InvalidRequest for what cannot be sent."""
    if delivery not in DELIVERIES:
        raise InvalidRequest(f"delivery must be one of {', '.join(DELIVERIES)}")


def short_name(model: str) -> str:
    """A name from outside: printable, and cut where it is long."""
    return "".join(each if each.isprintable() else "_" for each in model[:LONGEST_NAME])
