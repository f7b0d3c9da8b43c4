"""The numbers of types. A row stores the type of its node or edge as a number."""

import threading
from collections.abc import Callable

from contextrender_bridge.store.writes import StoreDamaged

TypeName = tuple[str, str]
"""The module and the name of a type of nodes or edges."""
KindRow = tuple[int, str, str]
"""The number, module and name of a type: a row of the table `kinds`."""
UNKNOWN_MODULE = "?"


class TypeNumbers:
    """The numbers of types in one database. A type gets its number when it is first stored."""

    def __init__(self, load: Callable[[], list[KindRow]], add: Callable[[str, str], None]) -> None:
        """Use `load` to read every row, and `add` to write the row of a type if it is missing."""
        self._load, self._add = load, add
        self._lock = threading.Lock()
        self._names: dict[int, TypeName] = {}
        self._numbers: dict[TypeName, int] = {}

    def number(self, module: str, name: str) -> int:
        """Return the number of a type. Store the type with a new number if it has none.

        Raise StoreDamaged if the number cannot be read back.
        """
        key = (module, name)
        if key not in self._numbers:
            with self._lock:
                self._refresh()
                if key not in self._numbers:
                    self._add(*key)
                    self._refresh()
                    if key not in self._numbers:
                        raise StoreDamaged  # The table has the row, but does not return it.
        return self._numbers[key]

    def find(self, module: str, name: str) -> int | None:
        """Return the number of a type, or None if no node or edge of it was ever stored."""
        key = (module, name)
        if key not in self._numbers:
            with self._lock:
                self._refresh()
        return self._numbers.get(key)

    def has(self, number: int) -> bool:
        """Return whether a type has this number."""
        return self.name(number)[0] != UNKNOWN_MODULE

    def name(self, number: int) -> TypeName:
        """Return the module and name of the type with this number.

        If the number is unknown, the module is `?` and the name `kind_NUMBER`.
        """
        if number not in self._names:
            with self._lock:
                self._refresh()
        return self._names.get(number, (UNKNOWN_MODULE, f"kind_{number}"))

    def _refresh(self) -> None:
        """Read all types again, because another process may have added some."""
        for number, module, name in self._load():
            self._names[number] = (module, name)
            self._numbers[module, name] = number
