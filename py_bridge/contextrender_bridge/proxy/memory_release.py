"""The release of memory after large requests to the proxy."""

import asyncio
import gc
from collections.abc import Callable

from contextrender_bridge.process_memory import return_free_memory

PAUSE_SECONDS = 30.0
"""The seconds without a large request after which the proxy drops large histories from memory."""


class MemoryRelease:
    """A timer that drops large histories and gives their memory back to the system.

    Large histories are kept until the timer ends, because a next request of such a history is read
    faster then. Small histories are not dropped.
    """

    def __init__(self, *drop_functions: Callable[[], None]) -> None:
        """Call these functions to drop large histories."""
        self._drop_functions = drop_functions
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start or restart the timer, which releases the memory after `PAUSE_SECONDS`.

        It is called at the end of each large request.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._release)

    def _release(self) -> None:
        """Drop the large histories, and give free memory back to the system."""
        for drop in self._drop_functions:
            drop()
        gc.collect()
        return_free_memory()
