"""What a session or a call sets of the method: its numbers, and which results stay in view."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.setting_kinds import AUTO as AUTO_NAME

SMALLEST_BUDGET = 64
AUTO = 0
"""The budget that finds itself, for `contextrender_cache_aware` (`docs/policies.md`, Budget)."""

START: Final[int] = 24_000
LEAST: Final = 8_000
MOST: Final = 160_000
"""Tokens at which such a budget begins, and between which it stays."""

WINDOW_SHARE: Final = 0.8
"""The most of a model's window that a budget which finds itself may be."""

_SHARES = ("query_task_share", "oversized_share", "newest_share", "rebuild_share")


def budget_name(budget: int) -> int | str:
    """A budget as it is told: a number of tokens, or "auto"."""
    return AUTO_NAME if budget == AUTO else budget


def limits_of(budget: int, window: int | None) -> tuple[int, int]:
    """The most that a call's budget may be, in tokens, and where it starts.

    A budget that is given is both. `window` is the model's, where that is known.
    """
    if budget != AUTO:
        return budget, budget
    most = min(MOST, int(WINDOW_SHARE * window)) if window else MOST
    return most, min(START, most)


@dataclass(slots=True, frozen=True)
class Parameters:
    """Defaults are the paper's; `docs/method.md` says what each does, and for those of our own
    policies `docs/policies.md`.
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
        """These with some changed. Raises InvalidRequest for an unknown name or a bad number."""
        known = {field.name for field in fields(self)}
        for name, value in changes.items():
            if name not in known:
                raise InvalidRequest(
                    f"no parameter {name!r:.40}; there are {', '.join(sorted(known))}"
                )
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value <= 1000
            ):
                raise InvalidRequest(f"parameter {name} must be a number from 0 to 1000")
        changed = replace(self, **{name: float(value) for name, value in changes.items()})
        for name in _SHARES:
            if getattr(changed, name) > 1:
                raise InvalidRequest(f"parameter {name} must be at most 1")
        return changed

    def to_json(self) -> dict[str, float]:
        """As plain values, by name."""
        return asdict(self)


def check_budget(budget: object) -> int:
    """A budget in tokens, or `AUTO` for "auto". Raises InvalidRequest for what is neither."""
    if budget == AUTO_NAME:
        return AUTO
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise InvalidRequest('budget must be a whole number of tokens, or "auto"')
    if budget < SMALLEST_BUDGET:
        raise InvalidRequest(f"budget must be at least {SMALLEST_BUDGET} tokens")
    return budget


MOST_NAMES: Final = 100
LONGEST: Final = 200
NAMES: Final = ("pinned_tools", "pinned_calls")


@dataclass(slots=True, frozen=True)
class Pins:
    """Names of tools, in which `*`, `?` and `[...]` stand for others, and ids of calls."""

    pinned_tools: tuple[str, ...] = ()
    pinned_calls: tuple[str, ...] = ()

    @classmethod
    def of(cls, pinned_tools: Any, pinned_calls: Any) -> Self:
        """From outside. Raises InvalidRequest for what is no list of names."""
        for pattern in _checked("pinned_tools", pinned_tools):
            if "[" in pattern and "]" not in pattern.partition("[")[2][1:]:
                raise InvalidRequest(f"pinned_tools has a [ without a ]: {pattern!r:.40}")
        return cls(_checked("pinned_tools", pinned_tools), _checked("pinned_calls", pinned_calls))

    def to_json(self) -> dict[str, list[str]]:
        """As settings, without what is not set."""
        return {name: list(given) for name in NAMES if (given := getattr(self, name))}

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """These with some changed. Raises InvalidRequest."""
        given = {
            name: changes[name] if changes.get(name) is not None else getattr(self, name)
            for name in NAMES
        }
        return type(self).of(**given)

    def __bool__(self) -> bool:
        """Whether anything is to be kept."""
        return bool(self.pinned_tools or self.pinned_calls)

    def names(self, tool: str, call_id: str) -> bool:
        """Whether a result of that call is to be kept."""
        return call_id in self.pinned_calls or any(
            fnmatchcase(tool, name) for name in self.pinned_tools
        )


NO_PINS: Final = Pins()


def _checked(field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or len(given) > MOST_NAMES:
        raise InvalidRequest(f"{field} must be a list of at most {MOST_NAMES} names")
    if not all(isinstance(name, str) and 0 < len(name) <= LONGEST for name in given):
        raise InvalidRequest(f"a name in {field} must have 1 to {LONGEST} characters")
    return tuple(dict.fromkeys(given))
