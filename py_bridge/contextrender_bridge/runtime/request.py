"""What a request is to its walker: the session it holds, its commits, its server.

And hooks for jaclang 0.16.7's own `commit`, `del` and `report`: left alone they lose a failure,
read what they need not, print contents.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import batched
from types import FunctionType, TracebackType
from typing import Any, Self
from uuid import UUID

from jaclang import lib  # type: ignore[attr-defined]
from jaclang.jac0core import jaclib  # type: ignore[attr-defined]
from jaclang.jac0core.archetype import Anchor, Archetype
from jaclang.jac0core.osp_kernel import _current_scope, osp_report
from jaclang.jac0core.runtime import JacRuntimeInterface, hookimpl, plugin_manager

from contextrender_bridge.base.errors import ContextRenderError, Damaged
from contextrender_bridge.engine.history.session_cache import Key, SessionState
from contextrender_bridge.runtime.memory import CURRENT
from contextrender_bridge.sessions.caches import WORKING_SET
from contextrender_bridge.sessions.ids import CALLER, ids_ahead, session_id_of
from contextrender_bridge.store.writes import WIPED_AT_ONCE

Tell = Callable[[object], None]

REST_SECONDS = 0.002
"""Threads share one interpreter: meanwhile the answer is passed on, which somebody waits for."""

TELL: ContextVar[Tell | None] = ContextVar("tell", default=None)


class SessionLease:
    """The lock of the caller's session of that id; what of it was `known` in this process, and its
    `state`, which is kept in process afterwards. `ahead` are a branch and how many messages of it:
    what a call needs that comes after them is loaded.

    A walk goes through many abilities, so no block can hold the lock: the request does, and gives
    it back once it has written, or failed. A state that is ahead of the database is forgotten.
    """

    def __init__(self, key: str) -> None:
        """Waits for the session of that key."""
        root = CALLER.get()
        self.place: Key = (str(root), key)
        self.id = session_id_of(root, key)
        self.known: SessionState | None = None
        self.state: SessionState | None = None
        self.ahead = (-1, 0)
        self._memory = CURRENT.get()
        self._locks = ExitStack()
        self._released = False
        self._memory.held.enter_context(self)
        # Whatever the request writes, it writes to the session that it read.
        self._memory.fence(self.id)
        self.known = WORKING_SET.get(self.place)

    def adopts(self) -> bool:
        """Takes in the nodes that the last request left, if they are as they are stored. One that
        fails leaves none: it may have changed them."""
        assert self.known is not None
        kept, self.known.nodes = self.known.nodes, {}
        return self._memory.adopt(kept, self.id)

    def release(self) -> None:
        """Give the session back already: nothing of it was changed."""
        self._memory.settled = False
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
                if self._memory.settled:
                    self.state.nodes = self._memory.give(ids_ahead(self.state))
                WORKING_SET.put(self.place, self.state)


def commit_now() -> None:
    """Write this request's changes now, inside whatever lock the walker holds; raises on failure.

    A walker that fails later keeps what was written here.
    """
    CURRENT.get().flush()


def wipe(mark: UUID, ids: Iterable[UUID]) -> None:
    """Deletes the caller's nodes unseen, with their edges, in slices: others write in between.

    Each slice finds the node `mark` as it was, so that nothing is deleted that came after it went.
    A request that loses a race afterwards may run again: it finds what is still to go.
    """
    memory, wanted = CURRENT.get(), list(ids)
    memory.fence(mark)
    wrote = memory.wrote
    # As each table is laid out: edges by their nodes' ids, nodes as they came. A slice is then of
    # few pages, and each page is written in few slices. What is one slice goes in one write.
    for some in batched(sorted(wanted), WIPED_AT_ONCE):
        memory.cut(some)
        if len(wanted) > WIPED_AT_ONCE:
            memory.flush()
    for some in batched(wanted, WIPED_AT_ONCE):
        memory.wipe(some)
        memory.flush()
    memory.wrote = wrote


def hold_until_done(lock: Any) -> None:
    """Takes a lock that the current request gives back when it ends."""
    CURRENT.get().held.enter_context(lock)


def answer_early(report: object) -> None:
    """Answers the current request with this report, before its changes are on disk.

    For callers that keep the whole history themselves: should the write fail, or the process die,
    their next call says so (409) and brings what is missing.
    """
    tell = TELL.get()
    if tell is not None:
        tell(report)
        time.sleep(REST_SECONDS)


@dataclass(frozen=True)
class Signer:
    """Makes links of the caller's. `sign` gives the secret of one: of a session's key, the link's
    name and when it ends (seconds since 1970). `generation` is that of the caller's tokens."""

    generation: str
    sign: Callable[[str, str, int], str]


SIGNER: ContextVar[Signer | None] = ContextVar("signer", default=None)
"""The one of the current call; None where no server runs it."""


class Hooks:
    """For walkers over our store; every other program keeps the runtime's own."""

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def log_report(expr: object, custom: bool) -> bool | None:
        """`report` without printing the value."""
        if custom or _current_scope() is None:
            return None
        osp_report(expr)
        return True

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def commit(anchor: object) -> bool | None:
        """`commit()` in a walker really commits."""
        memory = CURRENT.get(None)
        if memory is None:
            return None
        memory.flush()
        return True

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def destroy(objs: Any) -> bool | None:
        """`del` without loading every edge of a node, and every node at its other end, first."""
        memory = CURRENT.get(None)
        if memory is None:
            return None
        for each in objs if isinstance(objs, list) else [objs]:
            if isinstance(each, (Anchor, Archetype)):
                memory.delete((each if isinstance(each, Anchor) else each.__jac__).id)
        return True


def register_hooks() -> None:
    """With jaclang's plugin manager, once a process; again does nothing more."""
    if plugin_manager.is_registered(Hooks):
        return
    plugin_manager.register(Hooks, name="contextrender-runtime")
    for name, hook in vars(plugin_manager.hook).items():
        if hook._firstresult and len(hook.get_hookimpls()) == 1:
            _call_directly(name, hook)


def _call_directly(name: str, hook: Any) -> None:
    """Puts jaclang's own function in the place of the manager, which binds the arguments of each of
    some ninety calls a render by `inspect`; until a plugin comes that implements it, too.
    """
    (own,) = hook.get_hookimpls()
    through_manager = getattr(JacRuntimeInterface, name)
    expected, taken = (signature(each).parameters for each in (through_manager, own.function))
    plain = all(each.kind is Parameter.POSITIONAL_OR_KEYWORD for each in expected.values())
    if not plain or [*expected] != [*taken] or not isinstance(own.function, FunctionType):
        return

    def add(later: Any) -> None:
        del hook._add_hookimpl
        hook._add_hookimpl(later)
        put(through_manager)

    def put(function: Any) -> None:
        setattr(JacRuntimeInterface, name, staticmethod(function))
        # What compiled modules import their `connect` and `visit` from.
        for library in (jaclib, lib):
            if name in vars(library):
                setattr(library, name, function)

    hook._add_hookimpl = add
    code, names, closure = own.function.__code__, own.function.__globals__, own.function.__closure__
    defaults = (each.default for each in expected.values() if each.default is not Parameter.empty)
    direct = FunctionType(code, names, name, tuple(defaults), closure)
    put(direct)
