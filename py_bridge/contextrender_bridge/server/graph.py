"""What walkers need of the runtime below the language: node ids, owners, and batched loads."""

from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

from jaclang.jac0core.runtime import JacRuntime


def caller_root() -> UUID:
    """The id of the root of the user on whose behalf the current walker runs."""
    return cast(UUID, _context().user_root.id)


def set_id(node: object, identity: UUID) -> None:
    """Gives a node that is not connected yet its id."""
    cast(Any, node).__jac__.id = identity


def owned_node(identity: UUID) -> object | None:
    """The node of that id, if there is one and it belongs to the caller."""
    anchor = _context().mem.get(identity)
    if anchor is None or anchor.root != caller_root():
        return None
    return cast(object, anchor.archetype)


def load_nodes(identities: Iterable[UUID]) -> None:
    """Loads nodes in one read, so that visiting them costs no read each."""
    _context().mem.batch_get(list(identities))


def _context() -> Any:
    return JacRuntime.get_context()
