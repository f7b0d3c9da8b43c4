"""The sizes in tokens that the text of a compaction may have."""

from typing import Final

DEFAULT_TOKENS: Final[int] = 48_000
"""The size that `contextrender eval --compaction` found best (docs/evaluation.md)."""
MIN_TOKENS: Final = 2_000
MAX_TOKENS: Final = 1_000_000
