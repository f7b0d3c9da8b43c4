"""The release of memory after large requests to the proxy."""

import asyncio
import gc
from collections.abc import Callable

from contextrender_bridge.process_memory import return_free_memory

PAUSE_SECONDS = 30.0
"""The seconds without a large request after which the proxy drops large histories from memory."""


class MemoryRelease:
    """A timer that drops large histories and gives their memory back to the system.

    Until it ends, the next request of such a history is read faster. Small histories stay.
    """

    def __init__(self, *drop_functions: Callable[[], None]) -> None:
        """Call these functions to drop large histories."""
        self._drop_functions = drop_functions
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Release memory once no other large request has ended for `PAUSE_SECONDS`."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._release)

    def _release(self) -> None:
        for drop in self._drop_functions:
            drop()
        gc.collect()
        return_free_memory()
