"""A pause in calling the service after failures."""

from __future__ import annotations

import time

MAX_FAILURES = 3
PAUSE_SECONDS = 5.0


class Pause:
    """A pause of `PAUSE_SECONDS` without calls to the service, after `MAX_FAILURES` in a row."""

    def __init__(self) -> None:
        """Start without a failure."""
        self._failure_count = 0
        self._ends_at = 0.0
        """The end of the last pause, on the clock of `time.monotonic`."""

    @property
    def is_on(self) -> bool:
        """True while the service must not be called."""
        return time.monotonic() < self._ends_at

    def note(self, *, failed: bool) -> None:
        """Count a failure of the service, or reset the count after an answer.

        Begin a pause at the last of `MAX_FAILURES` failures in a row, and at each one after that.
        """
        self._failure_count = self._failure_count + 1 if failed else 0
        if self._failure_count >= MAX_FAILURES:
            self._ends_at = time.monotonic() + PAUSE_SECONDS
