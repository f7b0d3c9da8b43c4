"""On whose behalf the current walker runs."""

from uuid import UUID

from graph.runtime.memory import CURRENT, SYSTEM_ROOT


def caller_root() -> UUID:
    """The id of the caller's root."""
    return CURRENT.get().owner or SYSTEM_ROOT
