"""What a read-only link opens: the views of its one session, and nothing else."""

from collections.abc import Mapping
from typing import Any, Final

from contextrender_bridge.base.errors import ContextRenderError

OPEN: Final = frozenset(
    {
        "advise",
        "compare_policies",
        "explain",
        "glimpse",
        "glimpse_call",
        "inspect_session",
        "misses",
        "read_message",
        "recall",
        "remedies",
        "reuse_graph",
        "savings",
        "search",
        "show_call",
        "timeline",
        "trace_value",
    }
)
"""Walkers that look at the one session that they name. What they change is not kept, either."""


class NotShared(ContextRenderError):
    """A read-only link does not open that."""

    code = "read_only_link"
    status = 403


def check_shared(walker: str, fields: Mapping[str, Any], session: str) -> None:
    """Raises NotShared, whether or not there is what is asked for."""
    if walker not in OPEN or fields.get("session") != session:
        raise NotShared("This link opens one session for reading, and nothing else.")
