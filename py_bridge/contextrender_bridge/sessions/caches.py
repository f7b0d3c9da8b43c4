"""What a process keeps of sessions beyond its requests, all of it inside one limit."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.history.session_cache import SessionCache
from contextrender_bridge.engine.replay.recall_measures import linkable_tokens
from contextrender_bridge.engine.replay.replay_cache import ReplayCache


class Cache(Protocol):
    """What it holds and may hold, in bytes."""

    limit: int

    @property
    def nbytes(self) -> int:
        """What it holds."""
        ...


FOR_AGENTS: Final = 0.75
"""The share of the sessions that are rendered; the rest is for what looks back, and for texts."""
FOR_TEXTS: Final = 0.05
"""Of each cache of what texts hold."""
TEXTS: Final = (linkable_tokens,)

WORKING_SET: Final[SessionCache] = SessionCache(0)
PASTS: Final[ReplayCache] = ReplayCache(0)
CACHES: Final[Mapping[str, Sequence[Cache]]] = {
    "sessions": [WORKING_SET],
    "pasts": [PASTS],
    "texts": TEXTS,
}


def limit_caches(size: int) -> None:
    """So many bytes for all of them."""
    WORKING_SET.limit = int(size * FOR_AGENTS)
    for texts in TEXTS:
        texts.limit = int(size * FOR_TEXTS)
    PASTS.limit = size - WORKING_SET.limit - sum(texts.limit for texts in TEXTS)


limit_caches(current_settings().session_cache_mb * 2**20)
