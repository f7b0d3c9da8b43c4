"""The Jac app in this process: loaded once, its walkers called for one user at a time."""

import contextvars
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jac_scale.config_loader import get_scale_config, reset_scale_config
from jaclang.jac0core.archetype import WalkerArchetype
from jaclang.jac0core.constructs import Root
from jaclang.jac0core.osp_kernel import _current_scope, osp_report
from jaclang.jac0core.runtime import JacRuntime, hookimpl, plugin_manager
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.project.config import JacConfig, set_config
from jaclang.runtimelib.context import ExecutionContext
from jaclang.runtimelib.exceptions import WriteConflict

from contextrender_bridge.errors import Conflict
from contextrender_bridge.paths import ENTRY
from contextrender_bridge.server.replies import encode
from graph.runtime import fast_paths
from graph.runtime.early import TELL, Tell
from graph.runtime.locks import LOCKS
from graph.runtime.memory import SYSTEM_ROOT, RequestMemory, commit_now
from graph.runtime.sqlite import Database

# Of two requests that add to one node's edges at once, the later one runs again on what it finds,
# and while it does no other request of that user starts: only those under way can get in its way.
MORE_ATTEMPTS = 40


class _RunAgain(Exception):
    """Another request changed what this one read; nothing was written."""


class _Hooks:
    """Where the runtime's own behaviour would leak contents or lose a failure."""

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
        if not isinstance(Jac.get_context().mem, RequestMemory):
            return None
        commit_now()
        return True


def load_app(app: Path) -> dict[str, type]:
    """Import the app and return its walkers: those imported by its entry file, by name."""
    set_config(JacConfig.load(app / "jac.toml"))
    reset_scale_config()
    get_scale_config(app)
    if str(app) not in sys.path:
        sys.path.insert(0, str(app))
    if not plugin_manager.is_registered(_Hooks):
        plugin_manager.register(_Hooks, name="contextrender-runtime")
    fast_paths.install()
    name = ENTRY.removesuffix(".jac")
    if name not in JacRuntime.loaded_modules:
        JacRuntime.jac_import(target=name, base_path=str(app), lng="jac")
    return {
        walker.__name__: walker
        for walker in vars(JacRuntime.loaded_modules[name]).values()
        if inspect.isclass(walker) and issubclass(walker, WalkerArchetype)
    }


class Runtime:
    """Walkers over one store."""

    def __init__(self, app: Path, data: Path) -> None:
        """Loads the app; SQLite lives in `data`, unless jac-scale is set up for MongoDB."""
        self.walkers = load_app(app)
        LOCKS.share(data)
        remote = get_scale_config().get_database_config()["mongodb_uri"]
        self._database = None if remote else Database(data / "graph.db")
        self._turnstiles: dict[str, threading.Lock] = {}
        self._system_root = self._load_system_root()

    def call(
        self,
        name: str,
        fields: Callable[[], Mapping[str, Any]],
        root: str,
        tell: Tell | None = None,
    ) -> bytes:
        """Run a walker at the user's root; its reports as JSON, once its changes are on disk.

        `fields` makes them anew for each attempt. What the walker answers early goes to `tell`,
        once an attempt. Raises whatever the walker raises; then nothing is written.
        """
        turnstile = self._turnstiles.setdefault(root, threading.Lock())
        with turnstile:
            pass
        with suppress(_RunAgain):
            return contextvars.Context().run(self._attempt, name, fields(), root, tell)
        with turnstile:
            for _ in range(MORE_ATTEMPTS):
                with suppress(_RunAgain):
                    return contextvars.Context().run(self._attempt, name, fields(), root, tell)
        raise _lost_race()

    @contextmanager
    def unit_of_work(self, root: str | None = None) -> Iterator[RequestMemory]:
        """Make Jac's calls work on one user's graph, or as the system; only `flush` keeps any."""
        memory = RequestMemory(self._database)
        context = ExecutionContext(
            _parent=SimpleNamespace(
                mem=memory,
                system_root=self._system_root,
                user_root=self._system_root,
                entry_node=self._system_root,
                base_path_dir=None,
                full_target_path=None,
            )
        )
        token = JacRuntime.push_request_context(context)
        try:
            if root is not None:
                context.set_user_root(root)
                memory.owner = context.user_root.id
            with memory.held:
                yield memory
        finally:
            JacRuntime.reset_request_context(token)
            memory.close()

    def close(self) -> None:
        """Close the store."""
        if self._database is not None:
            self._database.close()
        LOCKS.unshare()

    def _attempt(self, name: str, fields: Mapping[str, Any], root: str, tell: Tell | None) -> bytes:
        TELL.set(tell)
        with self.unit_of_work(root) as memory:
            try:
                walker = self.walkers[name](**fields)
                # It and its anchor are a circle: left so, what it held outlives the request.
                memory.held.callback(vars(walker).clear)
                Jac.spawn(walker, Jac.get_context().get_root())
                reply = encode({"reports": walker.reports})
                memory.flush()
                Jac.get_context().run_pending_effects()
                return reply
            except WriteConflict:
                raise (_lost_race() if memory.wrote else _RunAgain()) from None

    def _load_system_root(self) -> Any:
        """The anchor above all users, shared read-only by every request."""
        self._system_root = None
        with self.unit_of_work() as memory:
            if (anchor := memory.get(SYSTEM_ROOT)) is None:
                anchor = Root().__jac__
                anchor.id = SYSTEM_ROOT
                memory.put(anchor)
                memory.flush()
        return anchor


def _lost_race() -> Conflict:
    """Running again did not help, or something was written already."""
    return Conflict("Other requests keep changing the same data. Try again.")
