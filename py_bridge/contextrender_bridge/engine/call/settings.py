"""The settings of a session and of each call, and the metadata that a caller sends with a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.setting_kinds import LIVE_POLICY
from contextrender_bridge.engine.parameters import (
    AUTO,
    NO_PINS,
    PIN_FIELDS,
    Parameters,
    Pins,
    budget_name,
    check_budget,
)
from contextrender_bridge.engine.policies import DEFAULT_POLICY, policy_named

DEFAULT_BUDGET = 6_000
RENDERED: Final = "rendered"
DELIVERIES: Final = (RENDERED, "full", "holdout")
"""The possible values of `delivery`, which says what the model received of the history.

`full` is the full history, because no rendering was wanted or possible. `holdout` is the full
history, sent on purpose to compare such calls with rendered calls.
"""
MAX_NAME_LENGTH: Final = 80
SETTINGS: Final = ("budget", "policy", "parameters", "agent_defaults", "window", *PIN_FIELDS)


@dataclass(slots=True, frozen=True)
class RenderSettings:
    """The settings with which a call is rendered.

    `budget` is in tokens, or `AUTO`. `policy` is the policy's name. With `agent_defaults`, the
    newest results are always shown. `pins` names the results that must be in every prompt. `window`
    is the model's context window in tokens, 0 if it is unknown. An automatic budget stays within
    it.
    """

    budget: int = DEFAULT_BUDGET
    policy: str = DEFAULT_POLICY
    parameters: Parameters = field(default_factory=Parameters)
    agent_defaults: bool = False
    pins: Pins = NO_PINS
    window: int = 0

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with the changes. A setting that is None or missing does not change.

        Raise InvalidRequest for a name that is not in `SETTINGS`, or for an invalid value. The
        error says that a setting is wrong (`setting=True`).
        """
        try:
            return self._updated(changes)
        except InvalidRequest as error:
            # Clients continue a model call after other errors, but not with a wrong setting.
            raise InvalidRequest(error.message, setting=True) from None

    def of_model(self, window: int | None) -> Self:
        """Return a copy with the window of a model. A fixed budget needs no window."""
        return replace(self, window=window or 0) if self.budget == AUTO else self

    @staticmethod
    def of(fields: Mapping[str, Any]) -> RenderSettings:
        """Return the settings from stored fields, and ignore all other fields.

        Raise InvalidRequest if a value is invalid.
        """
        values = {name: value for name in SETTINGS if (value := fields.get(name)) is not None}
        return _parsed(json.dumps(values))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, without those that are not set."""
        return deepcopy(_as_json(self))

    def _updated(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with the changes. Raise InvalidRequest if one of them is invalid."""
        unknown_names = set(changes) - set(SETTINGS)
        if unknown_names:
            raise InvalidRequest(
                f"no setting {min(unknown_names)!r:.40}; there are budget, policy, parameters, "
                + ", ".join(PIN_FIELDS)
            )
        # Every check raises InvalidRequest. A value of None changes nothing.
        settings = self
        if (budget := changes.get("budget")) is not None:
            settings = replace(settings, budget=check_budget(budget))
        if changes.get("agent_defaults") is not None:
            settings = replace(settings, agent_defaults=bool(changes["agent_defaults"]))
        if changes.get("window") is not None:
            settings = replace(settings, window=_window(changes["window"]))
        if (policy := changes.get("policy")) is not None:
            policy_named(policy if isinstance(policy, str) else "")  # raises if there is none
            settings = replace(settings, policy=policy)
        if (parameters := changes.get("parameters")) is not None:
            if not isinstance(parameters, Mapping):
                raise InvalidRequest("parameters must be an object of numbers by name")
            settings = replace(settings, parameters=settings.parameters.updated(parameters))
        if any(changes.get(name) is not None for name in PIN_FIELDS):
            settings = replace(settings, pins=settings.pins.updated(changes))
        return settings


@lru_cache(256)
def _as_json(settings: RenderSettings) -> dict[str, Any]:
    """Return the budget, the policy, and the other settings that differ from their defaults."""
    defaults, parameters = Parameters().to_json(), settings.parameters.to_json()
    changed = {name: value for name, value in parameters.items() if value != defaults[name]}
    values: dict[str, Any] = {"budget": budget_name(settings.budget), "policy": settings.policy}
    if changed:
        values["parameters"] = changed
    if settings.agent_defaults:
        values["agent_defaults"] = True
    if settings.window:
        values["window"] = settings.window
    return values | settings.pins.to_json()


@lru_cache(256)
def _parsed(settings: str) -> RenderSettings:
    """Return settings from JSON. They are cached, because most calls have the same settings."""
    return RenderSettings().updated(json.loads(settings))


def _window(window: object) -> int:
    """Return a window in tokens. Raise InvalidRequest if it is no whole number from 0 on."""
    if type(window) is not int or window < 0:
        raise InvalidRequest("window must be a whole number of tokens")
    return window


AGENT_SETTINGS = RenderSettings(budget=AUTO, policy=LIVE_POLICY, agent_defaults=True)
"""The settings for live agents (`docs/policies.md`): the default of `fit`, proxy and adapters."""


def has_changes(changes: Mapping[str, Any]) -> bool:
    """Return whether a request changes any setting. A value of None changes nothing."""
    return any(value is not None for value in changes.values())


@dataclass(slots=True, frozen=True)
class SettingsByTurn:
    """The settings of a branch's calls.

    `changes` has pairs of a turn at which the settings changed and the new settings. Calls before
    the first change have the settings `default`.
    """

    default: RenderSettings
    changes: tuple[tuple[int, RenderSettings], ...] = ()

    @classmethod
    def of(cls, calls: Iterable[tuple[int, RenderSettings]], default: RenderSettings) -> Self:
        """Return the settings of recorded calls. `calls` has their turns and settings, in order."""
        changes: list[tuple[int, RenderSettings]] = []
        for turn, settings in calls:
            if not changes or changes[-1][1] != settings:
                changes.append((turn, settings))
        return cls(default, tuple(changes))

    def at(self, turn: int) -> RenderSettings:
        """Return the settings of a call.

        If the call was not recorded, return the settings of the last recorded call before it.
        """
        settings_so_far = [settings for first_turn, settings in self.changes if first_turn <= turn]
        return settings_so_far[-1] if settings_so_far else self.default

    def of_call(self, turn: int | None) -> RenderSettings:
        """Return the settings of the call of a turn, or of the next call if `turn` is None.

        A live agent sends its settings with each call, so its next call will probably have the
        settings of its last call. In any other session, the next call has the default settings.
        """
        if turn is not None:
            return self.at(turn)
        last = self.changes[-1][1] if self.changes else self.default
        is_live_agent = last.agent_defaults
        return last if is_live_agent else self.default

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy in which the settings of every turn, and the default, have the changes.

        Raise InvalidRequest if a change is invalid.
        """
        return type(self)(
            self.default.updated(changes),
            tuple((turn, settings.updated(changes)) for turn, settings in self.changes),
        )


@dataclass(slots=True, frozen=True)
class CallMetadata:
    """The data that the caller sends with a model call: delivery, model and the client's name."""

    delivery: str = RENDERED
    model: str = ""
    client: str = ""

    @classmethod
    def of(cls, delivery: str = RENDERED, model: str = "", client: str = "") -> Self:
        """Return the metadata of a request. Raise InvalidRequest for an invalid value.

        If the model's name is too long, it is cut.
        """
        check_delivery(delivery)
        if len(client) > MAX_NAME_LENGTH or not client.isprintable():
            raise InvalidRequest(f"client must have up to {MAX_NAME_LENGTH} printable characters")
        return cls(delivery, short_name(model), client)

    def with_model(self, model: str) -> Self:
        """Return a copy with this model, or the same object if the caller named a model."""
        return self if self.model else replace(self, model=short_name(model))


def check_delivery(delivery: str) -> None:
    """Raise InvalidRequest if it is not one of `DELIVERIES`."""
    if delivery not in DELIVERIES:
        raise InvalidRequest(f"delivery must be one of {', '.join(DELIVERIES)}")


def short_name(model: str) -> str:
    """Return a name of at most `MAX_NAME_LENGTH` characters.

    Characters that are not printable are replaced by `_`.
    """
    return "".join(char if char.isprintable() else "_" for char in model[:MAX_NAME_LENGTH])
