"""How a session is rendered by default, and how one call differs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from contextrender_bridge.errors import InvalidRequest
from contextrender_bridge.setting_kinds import LIVE_BUDGET, LIVE_POLICY

from engine.parameters import Parameters, check_budget
from engine.pins import NAMES, NO_PINS, Pins
from engine.policies import DEFAULT_POLICY, policy_named

DEFAULT_BUDGET = 6_000


@dataclass(slots=True, frozen=True)
class RenderSettings:
    """The budget in tokens, the policy by name, and the method's parameters.

    `live` is an agent at work, to whom its newest results are always shown; `pins` are results that
    the caller wants kept.
    """

    budget: int = DEFAULT_BUDGET
    policy: str = DEFAULT_POLICY
    parameters: Parameters = field(default_factory=Parameters)
    live: bool = False
    pins: Pins = NO_PINS

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """These with some changed: `budget`, `policy`, `parameters` (by name), and pins.

        Raises InvalidRequest for an unknown name or a value that is not what it should be.
        """
        try:
            return self._updated(changes)
        except InvalidRequest as wrong:
            # For clients that let a model call go on whatever is wrong with it, but for this.
            raise InvalidRequest(wrong.message, setting=True) from None

    def _updated(self, changes: Mapping[str, Any]) -> Self:
        unknown = set(changes) - {"budget", "policy", "parameters", "live", *NAMES}
        if unknown:
            raise InvalidRequest(
                f"no setting {min(unknown)!r:.40}; there are budget, policy, parameters, "
                + ", ".join(NAMES)
            )
        settings = self
        if (budget := changes.get("budget")) is not None:
            if isinstance(budget, bool) or not isinstance(budget, int):
                raise InvalidRequest("budget must be a whole number of tokens")
            settings = replace(settings, budget=check_budget(budget))
        if changes.get("live") is not None:
            settings = replace(settings, live=bool(changes["live"]))
        if (policy := changes.get("policy")) is not None:
            policy_named(policy if isinstance(policy, str) else "")
            settings = replace(settings, policy=policy)
        if (parameters := changes.get("parameters")) is not None:
            if not isinstance(parameters, Mapping):
                raise InvalidRequest("parameters must be an object of numbers by name")
            settings = replace(settings, parameters=settings.parameters.updated(parameters))
        return replace(settings, pins=settings.pins.updated(changes))


LIVE = RenderSettings(budget=LIVE_BUDGET, policy=LIVE_POLICY, live=True)
"""What serves a live agent best (`docs/policies.md`): the default of `fit`, proxy and adapters."""


def asks(changes: Mapping[str, Any]) -> bool:
    """Whether any setting is asked for; those that a caller left out are None."""
    return any(value is not None for value in changes.values())
