"""Types of nodes and edges by number: a row names its type in two bytes."""

import threading
from collections.abc import Callable

from jaclang.runtimelib.serializer import Serializer

# In a host program our modules have a parent (contextrender_bridge/own_packages.py); rows never do.
PARENT = __name__.removesuffix("graph.runtime.kinds")

Row = tuple[int, str, str]
Name = tuple[str, str]


class Kinds:
    """The numbers one database uses; a type is numbered when it is first stored."""

    def __init__(self, load: Callable[[], list[Row]], add: Callable[[str, str], None]) -> None:
        """`load` reads every row of the table, `add` writes one unless it is there."""
        self._load, self._add = load, add
        self._lock = threading.Lock()
        self._names: dict[int, Name] = {}
        self._numbers: dict[Name, int] = {}
        self._classes: dict[int, type] = {}

    def number(self, kind: type) -> int:
        """The number to store instances under."""
        return self.number_of(*name_of(kind))

    def number_of(self, module: str, name: str) -> int:
        """The number of the type of that name."""
        key = (module, name)
        if key not in self._numbers:
            with self._lock:
                self._refresh()
                if key not in self._numbers:
                    self._add(*key)
                    self._refresh()
        return self._numbers[key]

    def cls(self, number: int) -> type | None:
        """The type, or None where the program has no such type now."""
        if number not in self._classes:
            found = _registered(*self.name(number))
            if found is None:
                return None
            self._classes[number] = found
        return self._classes[number]

    def name(self, number: int) -> Name:
        """Module and name of the type as it was stored."""
        if number not in self._names:
            with self._lock:
                self._refresh()
        return self._names.get(number, ("?", f"kind_{number}"))

    def forget_classes(self) -> None:
        """Look types up again, after a new alias."""
        self._classes.clear()

    def _refresh(self) -> None:
        for number, module, name in self._load():
            self._names[number] = (module, name)
            self._numbers[module, name] = number


def name_of(kind: type) -> Name:
    """Module and name of a type, as they are stored."""
    return kind.__module__.removeprefix(PARENT), kind.__name__


def _registered(module: str, name: str) -> type | None:
    """The type of that stored name; an alias may stand between."""
    ours = PARENT + module
    if f"{ours}.{name}" in Serializer._registry:
        module = ours
    found: type | None = Serializer._get_class(module, name)
    return found
