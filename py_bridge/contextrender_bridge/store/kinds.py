"""Types of nodes and edges by number: a row names its type in two bytes."""

import threading
from collections.abc import Callable

from contextrender_bridge.store.writes import StoreDamaged

Row = tuple[int, str, str]
Name = tuple[str, str]


class TypeNumbers:
    """The numbers one database uses; a type is numbered when it is first stored."""

    def __init__(self, load: Callable[[], list[Row]], add: Callable[[str, str], None]) -> None:
        """`load` reads every row of the table, `add` writes one unless it is there."""
        self._load, self._add = load, add
        self._lock = threading.Lock()
        self._names: dict[int, Name] = {}
        self._numbers: dict[Name, int] = {}

    def number(self, module: str, name: str) -> int:
        """Return the number of a type; a new type gets one."""
        key = (module, name)
        if key not in self._numbers:
            with self._lock:
                self._refresh()
                if key not in self._numbers:
                    self._add(*key)
                    self._refresh()
                    if key not in self._numbers:
                        raise StoreDamaged  # the database has the row, and does not read it
        return self._numbers[key]

    def find(self, module: str, name: str) -> int | None:
        """Return the number of the type of that name, or None if none of it was ever stored."""
        key = (module, name)
        if key not in self._numbers:
            with self._lock:
                self._refresh()
        return self._numbers.get(key)

    def name(self, number: int) -> Name:
        """Return the module and name of a type as it was stored."""
        if number not in self._names:
            with self._lock:
                self._refresh()
        return self._names.get(number, ("?", f"kind_{number}"))

    def _refresh(self) -> None:
        for number, module, name in self._load():
            self._names[number] = (module, name)
            self._numbers[module, name] = number
