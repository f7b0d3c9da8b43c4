"""Blocks that read or write one session, holding its lock."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from contextrender_bridge.settings import current_settings

from engine.history.working_set import Key, SessionState, WorkingSet
from graph.runtime.anchors import caller_root
from graph.runtime.locks import LOCKS
from graph.runtime.memory import commit_now

# No session has this key.
NO_SESSION = ""

WORKING_SET = WorkingSet(current_settings().working_set_mb * 2**20)


class Reading:
    """Holds the lock of the caller's session for the block, then keeps `state` in process."""

    def __init__(self, key: str) -> None:
        self.place: Key = (str(caller_root()), key)
        self.state: SessionState | None = None
        self._lock = ExitStack()

    def __enter__(self) -> Self:
        self._lock.enter_context(LOCKS.hold(*self.place))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._finish(failure)

    def _finish(self, failure: BaseException | None) -> None:
        if failure is None and self.state is not None:
            WORKING_SET.put(self.place, self.state)


class Writing(Reading):
    """Holds the lock of the caller's session for the block, then commits, then keeps `state`.

    When the block or the commit fails nothing is written, and a changed state is forgotten.
    """

    def hold_library(self) -> None:
        """Be the only one to add or remove sessions of the caller until the block ends.

        Call it before reading what lists them.
        """
        owner, _ = self.place
        self._lock.enter_context(LOCKS.hold(owner, NO_SESSION))

    def _finish(self, failure: BaseException | None) -> None:
        try:
            if failure is None:
                commit_now()
                if self.state is not None:
                    self.state.changed = False
                    WORKING_SET.put(self.place, self.state)
        finally:
            if self.state is None or self.state.changed:
                WORKING_SET.drop(self.place)
