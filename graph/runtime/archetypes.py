"""Types by their stored names, nodes and edges from rows, and rows from them."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from jaclang.jac0core.archetype import Access, Permission, access_level_cast
from jaclang.jac0core.constructs import Root
from jaclang.runtimelib.serializer import Serializer

from graph.store import rows
from graph.store.kinds import Kinds, Name

# In a host program our modules have a parent (contextrender_bridge/own_packages.py); rows never do.
PARENT: Final = __name__.removesuffix("graph.runtime.archetypes")
_TYPES: Final[dict[Name, type]] = {}

NEW: Final = 0
STORED: Final = 1
"""The runtime takes a hash of 0 for "not stored yet"; other values are not looked at here."""


def name_of(kind: type) -> Name:
    """Module and name of a type, as they are stored."""
    return kind.__module__.removeprefix(PARENT), kind.__name__


def type_of(name: Name) -> type | None:
    """The type of that stored name, or None where the program has no such type; an alias may stand
    between."""
    if name not in _TYPES:
        module, plain = name
        ours = PARENT + module
        module = ours if f"{ours}.{plain}" in Serializer._registry else module
        found = Serializer._get_class(module, plain)
        if found is None:
            return None
        _TYPES[name] = found
    return _TYPES[name]


@lru_cache(1024)
def type_at(kinds: Kinds, number: int) -> type:
    """The type of that number in a database. Raises TypeError where the program has none."""
    if (found := type_of(kinds.name(number))) is None:
        raise TypeError("there is no such type")
    return found


@lru_cache(1024)
def number_of(kinds: Kinds, kind: type) -> int:
    """The number that a database has for a type."""
    return kinds.number(*name_of(kind))


def forget_types() -> None:
    """Look types up again, after a new alias."""
    _TYPES.clear()
    type_at.cache_clear()


def edge_id(source: UUID, kind: type, target: UUID) -> UUID:
    """The id of the edge of a type between two nodes."""
    name = ".".join(name_of(kind)).encode()
    digest = blake2b(source.bytes + target.bytes + name, digest_size=16)
    return UUID(bytes=digest.digest())


def encode(anchor: Any) -> bytes:
    """The row of an anchor's fields and, where it is not the usual one, of who may see it."""
    access = anchor.access
    notes: dict[str, Any] = {}
    if access.all.value >= 0 or access.roots.anchors:
        granted = {str(root): level.value for root, level in access.roots.anchors.items()}
        notes["access"] = {"all": access.all.value, "roots": granted}
    return rows.encode(plain_fields(anchor.archetype), notes)


def plain_fields(archetype: object) -> dict[str, Any]:
    """The fields that are stored."""
    return {name: value for name, value in vars(archetype).items() if name[0] != "_"}


def build(cls: type | None, row: bytes) -> tuple[Any, dict[str, Any], bool]:
    """An archetype of that row, what else it tells, and whether it has every field there is now.

    Raises TypeError or ValueError where it cannot be made.
    """
    if cls is None:
        raise TypeError("there is no such type")
    held, notes = rows.parse(row)
    archetype: Any = object.__new__(cls)
    state = vars(archetype)
    state.update(held)
    complete = True
    for declared in fields(cls) if hasattr(cls, "__dataclass_fields__") else ():
        if declared.name not in state and declared.name[0] != "_":
            state[declared.name] = _default(cls, declared)
            complete = False
    return archetype, notes, complete


def unreadable(name: Name, data: bytes) -> str:
    """Why a stored row is none of that type to this program; empty where it is."""
    try:
        build(type_of(name), rows.unpack(data))
    except (ValueError, TypeError) as problem:
        return str(problem)
    return ""


def _default(cls: type, declared: Any) -> Any:
    if declared.default is not MISSING:
        return declared.default
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    raise TypeError(f"{cls.__name__} needs the field {declared.name}")


def anchor_state(
    id: UUID, owner: UUID, archetype: object, notes: Mapping[str, Any]
) -> dict[str, Any]:
    """What every anchor holds."""
    access = Permission()
    if granted := notes.get("access"):
        access.all = access_level_cast(granted["all"])
        access.roots = Access(
            anchors={root: access_level_cast(level) for root, level in granted["roots"].items()}
        )
    return {
        "id": id,
        "root": None if isinstance(archetype, Root) else owner,
        "archetype": archetype,
        "access": access,
        "persistent": True,
        "hash": STORED,
    }
