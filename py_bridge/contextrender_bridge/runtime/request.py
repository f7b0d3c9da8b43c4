"""The functions of a request for its walker: commits, deletions and early answers.

Hooks replace `commit`, `del` and `report` of jaclang 0.16.7, which hide a failed write, load edges
without need and print contents. Long because all of them read the current request's memory.
"""

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import batched
from types import FunctionType
from typing import Any
from uuid import UUID

from jaclang import lib  # type: ignore[attr-defined]
from jaclang.jac0core import jaclib  # type: ignore[attr-defined]
from jaclang.jac0core.archetype import Anchor, Archetype
from jaclang.jac0core.osp_kernel import _current_scope, osp_report
from jaclang.jac0core.runtime import JacRuntimeInterface, hookimpl, plugin_manager

from contextrender_bridge.runtime.memory import CURRENT
from contextrender_bridge.store.writes import NODES_PER_DELETION

SendReply = Callable[[object], None]
YIELD_SECONDS = 0.002
"""A pause after an early answer, which lets another thread run and send it."""

SEND_REPLY: ContextVar[SendReply | None] = ContextVar("send_reply", default=None)
"""The function that sends the current request's reply early; None if it may not be sent early."""


def commit_now() -> None:
    """Write this request's changes now, while it holds its locks. Raise the error if that fails.

    If the walker fails later, these changes are not undone.
    """
    CURRENT.get().flush()


def delete_unread(mark: UUID, ids: Iterable[UUID]) -> None:
    """Delete the caller's nodes and their edges without reading them, one slice per write.

    Other requests can write between slices. If one of them has changed the node `mark`, raise
    WriteConflict, so that no newer data is deleted. The slices before stay deleted, and the request
    may run again for the other nodes.
    """
    memory, nodes_to_delete = CURRENT.get(), list(ids)
    memory.require_unchanged(mark)
    wrote_before = memory.wrote
    # Delete in the order of each table on disk, so that a slice changes few pages: edges by the ids
    # of their nodes, nodes as inserted. A single slice deletes both in one write.
    for slice in batched(sorted(nodes_to_delete), NODES_PER_DELETION):
        memory.delete_edges_at(slice)
        if len(nodes_to_delete) > NODES_PER_DELETION:
            memory.flush()
    for slice in batched(nodes_to_delete, NODES_PER_DELETION):
        memory.delete_unread(slice)
        memory.flush()
    # `wrote` lets `SessionLease` cache a changed state. These writes do not store such a state.
    memory.wrote = wrote_before


def hold_until_done(lock: Any) -> None:
    """Acquire a lock, and release it when the current request ends."""
    CURRENT.get().on_end.enter_context(lock)


def answer_early(report: object) -> None:
    """Answer the current request with this report, before its changes are on disk.

    Only clients that have the whole history may use it. If the write fails or the process dies,
    their next call gets the status 409, and they send the missing messages.
    """
    send_reply = SEND_REPLY.get()
    if send_reply is not None:
        send_reply(report)
        time.sleep(YIELD_SECONDS)  # Let the thread that sends the answer run first.


@dataclass(frozen=True)
class Signer:
    """The signer of the caller's share links.

    `sign` returns a link's secret, given the session's key, the link's name and its expiry time in
    seconds since 1970. `generation` is the generation of the caller's tokens.
    """

    generation: str
    sign: Callable[[str, str, int], str]


SIGNER: ContextVar[Signer | None] = ContextVar("signer", default=None)
"""The signer of the current call; None if no server runs it."""


class Hooks:
    """Hooks for `report`, `commit` and `del` in requests. Elsewhere jaclang's own are used."""

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def log_report(expr: object, custom: bool) -> bool | None:
        """Add a `report` to the walker's reports without printing it, and return True.

        Return None for a `custom` report, which replaces the whole reply, and outside a walker.
        Then jaclang's own function runs.
        """
        if custom or _current_scope() is None:
            return None
        osp_report(expr)
        return True

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def commit(anchor: object) -> bool | None:
        """Write the request's changes. Return None outside a request: jaclang commits then."""
        memory = CURRENT.get(None)
        if memory is None:
            return None
        memory.flush()
        return True

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def destroy(objs: Any) -> bool | None:
        """Delete nodes and edges without loading a node's edges first, and return True.

        Return None outside a request: jaclang's own function deletes then.
        """
        memory = CURRENT.get(None)
        if memory is None:
            return None
        values = objs if isinstance(objs, list) else [objs]
        for value in values:
            anchor = value.__jac__ if isinstance(value, Archetype) else value
            if isinstance(anchor, Anchor):
                memory.delete(anchor.id)
        return True


def register_hooks() -> None:
    """Register the hooks with jaclang's plugin manager, once per process."""
    if plugin_manager.is_registered(Hooks):
        return
    plugin_manager.register(Hooks, name="contextrender-runtime")
    # A hook that only jaclang implements needs no plugin manager.
    for name, hook in vars(plugin_manager.hook).items():
        if hook._firstresult and len(hook.get_hookimpls()) == 1:
            _call_directly(name, hook)


def _call_directly(name: str, hook: Any) -> None:
    """Make jaclang call its own function of a hook directly, until a plugin implements the hook.

    The plugin manager is slow, because it binds the arguments of each call by `inspect`, and a
    render makes some ninety calls. Do nothing if the manager's parameters are not exactly those of
    the function, because a direct call would then differ.
    """
    # Compare the parameters of jaclang's function with the parameters of the manager's.
    (implementation,) = hook.get_hookimpls()
    function, through_manager = implementation.function, getattr(JacRuntimeInterface, name)
    parameters = signature(through_manager).parameters
    is_plain = all(p.kind is Parameter.POSITIONAL_OR_KEYWORD for p in parameters.values())
    has_same_names = [*parameters] == [*signature(function).parameters]
    if not (is_plain and has_same_names and isinstance(function, FunctionType)):
        return

    def set_callee(callee: Any) -> None:
        """Make jaclang call `callee` for the hook, in compiled modules too."""
        setattr(JacRuntimeInterface, name, staticmethod(callee))
        # Compiled modules import `connect` and `visit` from these libraries.
        for library in (jaclib, lib):
            if name in vars(library):
                setattr(library, name, callee)

    def add_hookimpl(other_implementation: Any) -> None:
        """Add a plugin's implementation, and call the hook through the manager from now on."""
        del hook._add_hookimpl  # Remove the override, so that the class's own method is used again.
        hook._add_hookimpl(other_implementation)
        set_callee(through_manager)

    # Override, in this hook alone, the method by which the manager adds a plugin's implementation.
    hook._add_hookimpl = add_hookimpl
    set_callee(_copy_with_defaults(name, function, parameters.values()))


def _copy_with_defaults(
    name: str, function: FunctionType, parameters: Iterable[Parameter]
) -> FunctionType:
    """Return a copy of jaclang's function of a hook, with the defaults of the manager's parameters.

    Callers may omit what has a default in the manager's signature, but jaclang's function need not
    have these defaults.
    """
    defaults = tuple(p.default for p in parameters if p.default is not Parameter.empty)
    return FunctionType(
        function.__code__, function.__globals__, name, defaults, function.__closure__
    )
