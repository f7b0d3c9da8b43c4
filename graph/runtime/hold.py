"""A session that a request has for itself: from its walker's first step until all is on disk."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from contextrender_bridge.base.errors import ContextRenderError, Damaged

from engine.history.working_set import Key, SessionState
from graph.runtime.memory import CURRENT
from graph.sessions.caches import WORKING_SET
from graph.sessions.ids import caller_root, session_id


class Hold:
    """The lock of the caller's session, and its `state`, which is kept in process afterwards.

    A walk goes through many abilities, so no block can hold the lock: the request does, and gives
    it back once it has written, or failed. A state that is ahead of the database is forgotten.
    """

    def __init__(self, key: str) -> None:
        """Waits for the session of that key."""
        self.place: Key = (str(caller_root()), key)
        self.state: SessionState | None = None
        self._memory = CURRENT.get()
        self._locks = ExitStack()
        self._released = False
        self._memory.held.enter_context(self)
        # Whatever the request writes, it writes to the session that it read.
        self._memory.fence(session_id(key))

    def release(self) -> None:
        """Give the session back already: nothing of it was changed."""
        self.__exit__(None, None, None)
        self._released = True

    def __enter__(self) -> Self:
        self._locks.enter_context(self._memory.locks.hold(*self.place))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._released:
            return
        with self._locks:
            failed = failure is not None or not self._memory.wrote
            doubtful = failure is not None and (
                isinstance(failure, Damaged) or not isinstance(failure, ContextRenderError)
            )
            if self.state is None or (self.state.changed and failed) or doubtful:
                WORKING_SET.drop(self.place)
            elif failure is None:
                self.state.changed = False
                WORKING_SET.put(self.place, self.state)
