"""What an operator sets by environment variables, in one place.

The paper's names `CTXGRAPH_MODEL` and `CTXGRAPH_EMBED_MODEL` work as well.
"""

import os
from dataclasses import dataclass

from contextrender_bridge.errors import InvalidRequest


@dataclass(slots=True, frozen=True)
class Settings:
    """`model` compacts oversized results (none: excerpts) and summarises histories.

    `embed_model` makes vectors, `working_set_mb` bounds the sessions kept in process.
    `acon_guideline` is the file with the guideline of the policy `acon` (none: our own).
    """

    model: str = ""
    embed_model: str = "wordllama"
    acon_guideline: str = ""
    working_set_mb: int = 256


def from_environment() -> Settings:
    """The settings in force now. Raises InvalidRequest for one that is not what it should be."""
    defaults = Settings()
    return Settings(
        model=_first("CONTEXTRENDER_MODEL", "CTXGRAPH_MODEL") or defaults.model,
        embed_model=_first("CONTEXTRENDER_EMBED_MODEL", "CTXGRAPH_EMBED_MODEL")
        or defaults.embed_model,
        acon_guideline=_first("CONTEXTRENDER_ACON_GUIDELINE"),
        working_set_mb=_positive("CONTEXTRENDER_WORKING_SET_MB", defaults.working_set_mb),
    )


def _first(*names: str) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _positive(name: str, default: int) -> int:
    text = _first(name)
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise InvalidRequest(f"{name} must be a whole number of at least 1")
    return int(text)
