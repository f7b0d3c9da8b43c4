"""A circuit breaker: stop asking a provider that just failed."""

import threading
import time
from collections.abc import Callable


class CircuitBreaker:
    """After a failure refuses calls for `cooldown` seconds, then lets one through as a trial.

    Thread-safe. `clock` gives seconds and never goes back.
    """

    def __init__(self, cooldown: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts closed: calls are allowed."""
        self._cooldown = cooldown
        self._clock = clock
        self._lock = threading.Lock()
        self._retry_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the last call failed."""
        return self._retry_at is not None

    @property
    def refuses(self) -> bool:
        """Whether a call would be refused now."""
        with self._lock:
            return self._retry_at is not None and self._clock() < self._retry_at

    def allow(self) -> bool:
        """Whether a call may be made now; a trial keeps other callers out for `cooldown`."""
        with self._lock:
            if self._retry_at is None:
                return True
            if self._clock() < self._retry_at:
                return False
            self._retry_at = self._clock() + self._cooldown
            return True

    def succeed(self) -> None:
        """Records a success: calls are allowed again."""
        with self._lock:
            self._retry_at = None

    def fail(self) -> None:
        """Records a failure: calls are refused for `cooldown` seconds from now."""
        with self._lock:
            self._retry_at = self._clock() + self._cooldown
