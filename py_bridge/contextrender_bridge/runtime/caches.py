"""The caches of sessions that a process keeps between requests, within one limit of memory."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.replay.recall_measures import recall_tokens
from contextrender_bridge.engine.replay.replay_cache import ReplayCache
from contextrender_bridge.runtime.session_lease import WORKING_SET


class SizedCache(Protocol):
    """A cache with its size and its limit in bytes."""

    limit: int

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        ...


AGENTS_SHARE: Final = 0.75
"""The share of the memory for sessions that agents render. Replays and texts get the rest."""
TEXTS_SHARE: Final = 0.05
"""The share of the memory for each cache in `TEXTS`."""
TEXTS: Final = (recall_tokens,)

# `limit_caches` sets the limits below.
REPLAYS: Final[ReplayCache] = ReplayCache(0)
CACHES: Final[Mapping[str, Sequence[SizedCache]]] = {
    "sessions": [WORKING_SET],
    "replays": [REPLAYS],
    "texts": TEXTS,
}


def limit_caches(size: int) -> None:
    """Divide `size` bytes among the caches."""
    WORKING_SET.limit = int(size * AGENTS_SHARE)
    for texts in TEXTS:
        texts.limit = int(size * TEXTS_SHARE)
    REPLAYS.limit = size - WORKING_SET.limit - sum(texts.limit for texts in TEXTS)


limit_caches(current_settings().session_cache_mb * 2**20)
