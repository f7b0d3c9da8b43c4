"""The server's settings: environment variables, read once when it is built."""

import os
from dataclasses import dataclass

from contextrender_bridge.errors import CommandError


@dataclass(frozen=True)
class Settings:
    """Limits of one server process."""

    max_body_bytes: int = 64 * 2**20
    threads: int = 32

    @classmethod
    def from_environment(cls) -> "Settings":
        """`CONTEXTRENDER_MAX_BODY_MB` and `CONTEXTRENDER_THREADS`."""
        return cls(
            max_body_bytes=_positive("CONTEXTRENDER_MAX_BODY_MB", 64) * 2**20,
            threads=_positive("CONTEXTRENDER_THREADS", 32),
        )


def _positive(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise CommandError(f"{name} must be a whole number above 0.")
    return int(text)
