"""Settings of a session or a call: the method's parameters, the budget and the pinned results."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.setting_kinds import AUTO as AUTO_NAME

SMALLEST_BUDGET = 64
AUTO = 0
"""The automatic budget, for `contextrender_cache_aware` (`docs/policies.md`, Budget)."""

START_BUDGET: Final[int] = 24_000
"""The tokens at which an automatic budget starts."""

MIN_AUTO_BUDGET: Final = 8_000
MAX_AUTO_BUDGET: Final = 160_000
"""The limits of an automatic budget, in tokens."""

WINDOW_SHARE: Final = 0.8
"""The largest share of a model's window that an automatic budget may have."""

MAX_PARAMETER: Final = 1_000
_SHARES = ("query_task_share", "oversized_share", "newest_share", "rebuild_share")
"""The parameters that are at most 1."""


def budget_name(budget: int) -> int | str:
    """Return a budget as reports show it: a number of tokens, or "auto"."""
    return AUTO_NAME if budget == AUTO else budget


def limits_of(budget: int, window: int | None) -> tuple[int, int]:
    """Return a budget's upper limit and the budget of the first call, both in tokens.

    An automatic budget stays within the model's context window of `window` tokens (None if it is
    unknown). For a fixed budget, both numbers are the budget.
    """
    if budget != AUTO:
        return budget, budget
    limit = min(MAX_AUTO_BUDGET, int(WINDOW_SHARE * window)) if window else MAX_AUTO_BUDGET
    return limit, min(START_BUDGET, limit)


@dataclass(slots=True, frozen=True)
class Parameters:
    """The numbers of the method, with the paper's defaults.

    `docs/method.md` explains the paper's parameters, `docs/policies.md` those of our own policies.
    """

    weight_recency: float = 1.0
    weight_reuse: float = 1.0
    weight_relevance: float = 1.0
    recency_decay: float = 0.3
    reuse_rate: float = 0.2
    redundancy_penalty: float = 0.5
    query_task_share: float = 0.4
    oversized_share: float = 0.125
    newest_share: float = 0.5
    rebuild_share: float = 0.5
    cache_ttl_minutes: float = 5.0

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with changes. Raise InvalidRequest if a name or a number is invalid."""
        names = {field.name for field in fields(self)}
        for name, value in changes.items():
            if name not in names:
                raise InvalidRequest(
                    f"no parameter {name!r:.40}; there are {', '.join(sorted(names))}"
                )
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= MAX_PARAMETER:
                raise InvalidRequest(f"parameter {name} must be a number from 0 to {MAX_PARAMETER}")
            if name in _SHARES and value > 1:
                raise InvalidRequest(f"parameter {name} must be at most 1")
        return replace(self, **{name: float(value) for name, value in changes.items()})

    def to_json(self) -> dict[str, float]:
        """Return the values by name."""
        return asdict(self)


def check_budget(budget: object) -> int:
    """Return a budget in tokens, or `AUTO` for "auto". Raise InvalidRequest for anything else."""
    if budget == AUTO_NAME:
        return AUTO
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise InvalidRequest('budget must be a whole number of tokens, or "auto"')
    if budget < SMALLEST_BUDGET:
        raise InvalidRequest(f"budget must be at least {SMALLEST_BUDGET} tokens")
    return budget


MAX_NAMES: Final = 100
MAX_NAME_LENGTH: Final = 200
PIN_FIELDS: Final = ("pinned_tools", "pinned_calls")


@dataclass(slots=True, frozen=True)
class Pins:
    """The names of the results that must be in every prompt.

    `pinned_tools` are patterns of tools' names with the wildcards `*`, `?` and `[...]`; all results
    of these tools are pinned. `pinned_calls` are ids of calls whose results are pinned.
    """

    pinned_tools: tuple[str, ...] = ()
    pinned_calls: tuple[str, ...] = ()

    @classmethod
    def of(cls, pinned_tools: Any, pinned_calls: Any) -> Self:
        """Return the pins in the two fields of a request.

        Raise InvalidRequest if a field is not a list of names, or a pattern has a [ without a ].
        """
        tools = _check_names("pinned_tools", pinned_tools)
        for pattern in tools:
            _, bracket, after_bracket = pattern.partition("[")
            # In a set of characters such as []a], a leading ] does not end the set.
            if bracket and "]" not in after_bracket[1:]:
                raise InvalidRequest(f"pinned_tools has a [ without a ]: {pattern!r:.40}")
        return cls(tools, _check_names("pinned_calls", pinned_calls))

    def to_json(self) -> dict[str, list[str]]:
        """Return the fields that are not empty, by name."""
        return {field: list(names) for field in PIN_FIELDS if (names := getattr(self, field))}

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with the changed fields. A field that is None or missing does not change.

        Raise InvalidRequest if a field is invalid, as `of` does.
        """
        names_by_field = {field: getattr(self, field) for field in PIN_FIELDS}
        for field in PIN_FIELDS:
            if changes.get(field) is not None:
                names_by_field[field] = changes[field]
        return type(self).of(**names_by_field)

    def names(self, tool: str, call_id: str) -> bool:
        """Return whether the result of this call of a tool is pinned."""
        return call_id in self.pinned_calls or any(
            fnmatchcase(tool, pattern) for pattern in self.pinned_tools
        )


NO_PINS: Final = Pins()


def _check_names(field: str, names: Any) -> tuple[str, ...]:
    """Return a field's names, each once. Raise InvalidRequest if it is not a list of names."""
    if not isinstance(names, list | tuple) or len(names) > MAX_NAMES:
        raise InvalidRequest(f"{field} must be a list of at most {MAX_NAMES} names")
    if not all(isinstance(name, str) and 0 < len(name) <= MAX_NAME_LENGTH for name in names):
        raise InvalidRequest(f"a name in {field} must have 1 to {MAX_NAME_LENGTH} characters")
    return tuple(dict.fromkeys(names))
