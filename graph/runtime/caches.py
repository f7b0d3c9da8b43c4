"""What a process keeps of sessions beyond its requests, all of it inside one limit."""

from typing import Final

from contextrender_bridge.settings import current_settings

from engine.history.working_set import WorkingSet
from engine.lookback.kept import Pasts

FOR_AGENTS: Final = 0.75
"""The share of the sessions that are rendered; the rest is for what looks back."""

WORKING_SET: Final[WorkingSet] = WorkingSet(0)
PASTS: Final[Pasts] = Pasts(0)


def limit_caches(size: int) -> None:
    """So many bytes for all of them."""
    WORKING_SET.limit = int(size * FOR_AGENTS)
    PASTS.limit = size - WORKING_SET.limit


limit_caches(current_settings().working_set_mb * 2**20)
