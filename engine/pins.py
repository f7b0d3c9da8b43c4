"""Which results must stay in view: those of some tools, and of some calls (docs/policies.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest

MOST: Final = 100
LONGEST: Final = 200
NAMES: Final = ("keep_tools", "keep")


@dataclass(slots=True, frozen=True)
class Pins:
    """Names of tools, in which `*`, `?` and `[...]` stand for others, and ids of calls."""

    keep_tools: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    @classmethod
    def of(cls, keep_tools: Any, keep: Any) -> Self:
        """From outside. Raises InvalidRequest for what is no list of names."""
        for pattern in _checked("keep_tools", keep_tools):
            if "[" in pattern and "]" not in pattern.partition("[")[2][1:]:
                raise InvalidRequest(f"keep_tools has a [ without a ]: {pattern!r:.40}")
        return cls(_checked("keep_tools", keep_tools), _checked("keep", keep))

    def to_json(self) -> dict[str, list[str]]:
        """As settings, without what is not set."""
        return {name: list(given) for name in NAMES if (given := getattr(self, name))}

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """These with some changed. Raises InvalidRequest."""
        if all(changes.get(name) is None for name in NAMES):
            return self
        given = {
            name: changes[name] if changes.get(name) is not None else getattr(self, name)
            for name in NAMES
        }
        return type(self).of(**given)

    def __bool__(self) -> bool:
        """Whether anything is to be kept."""
        return bool(self.keep_tools or self.keep)

    def names(self, tool: str, call_id: str) -> bool:
        """Whether a result of that call is to be kept."""
        return call_id in self.keep or any(fnmatchcase(tool, name) for name in self.keep_tools)


NO_PINS: Final = Pins()


def _checked(field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or len(given) > MOST:
        raise InvalidRequest(f"{field} must be a list of at most {MOST} names")
    if not all(isinstance(name, str) and 0 < len(name) <= LONGEST for name in given):
        raise InvalidRequest(f"a name in {field} must have 1 to {LONGEST} characters")
    return tuple(dict.fromkeys(given))
