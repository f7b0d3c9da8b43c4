"""On whose behalf the current walker runs."""

from typing import cast
from uuid import UUID

from jaclang.jac0core.runtime import JacRuntime


def caller_root() -> UUID:
    """The id of the caller's root."""
    return cast(UUID, JacRuntime.get_context().user_root.id)
