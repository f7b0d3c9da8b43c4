"""The state of a session in the memory of a process."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from contextrender_bridge.engine.history.branch_matching import BranchInfo
from contextrender_bridge.engine.history.history import History


@dataclass(slots=True)
class SessionState:
    """A session in memory, as the store had it at `revision`.

    `epoch` tells apart two sessions with the same key, if the first one was deleted. `head` is the
    branch that was used last. `histories` maps the numbers of loaded branches to their histories.
    `changed` is true while the session has messages that are not committed. `nodes` are the stored
    nodes that the next call needs.
    """

    id: UUID
    epoch: float
    revision: int
    head: int
    branches: list[BranchInfo]
    histories: dict[int, History] = field(default_factory=dict)
    changed: bool = False
    nodes: dict[UUID, Any] = field(default_factory=dict)
