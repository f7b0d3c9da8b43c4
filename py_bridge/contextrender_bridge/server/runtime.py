"""The Jac app in this process: loaded once, its walkers called for one user at a time."""

import contextvars
import importlib
import inspect
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from jac_scale.config_loader import get_scale_config, reset_scale_config
from jaclang.jac0core.archetype import WalkerArchetype
from jaclang.jac0core.constructs import Root
from jaclang.jac0core.runtime import JacRuntime
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.project.config import JacConfig, set_config
from jaclang.runtimelib.context import ExecutionContext

from contextrender_bridge.base.errors import Conflict, ContextRenderError, Damaged
from contextrender_bridge.base.paths import ENTRY, app_dir, make_app_importable
from contextrender_bridge.base.spans import span
from contextrender_bridge.engine.models.providers import (
    ANSWERS,
    PendingProviderCall,
    ProviderAnswers,
)
from contextrender_bridge.runtime.memory import SYSTEM_ROOT, RequestMemory, as_current
from contextrender_bridge.runtime.request import TELL, Tell, register_hooks
from contextrender_bridge.server.damaged_sessions import first_damage, set_damaged_aside
from contextrender_bridge.server.http.bodies import Reply
from contextrender_bridge.sessions.locks import SessionLocks
from contextrender_bridge.store.opening import open_store
from contextrender_bridge.store.writes import WriteConflict

# Of two requests that change the same rows, the later one runs again on what it finds; while it
# does, no other request of that session starts here: only those under way get in its way.
MORE_ATTEMPTS: Final = 40
TURNSTILES: Final = 256
LONGEST_PAUSE: Final = 0.05


type Fields = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Walk:
    """A walker to be run at a user's root.

    `fields` makes them anew for each attempt; the reply is in that `form`. What it answers early
    goes to `tell`, once, and is its reply then. Changes are written if it is to `keep`
    them, and never of what only reads.
    """

    name: str
    fields: Fields
    root: str
    form: Callable[[Any], Any]
    answers: ProviderAnswers = field(default_factory=ProviderAnswers)
    tell: Tell | None = None
    keep: bool = True
    early_reports: list[object] = field(default_factory=list)


class _RunAgain(Exception):
    """Another request changed what this one read; nothing was written."""


def load_app(app: Path) -> dict[str, type]:
    """Import the app and return its walkers: those imported by its entry file, by name."""
    set_config(JacConfig.load(app / "jac.toml"))
    reset_scale_config()
    get_scale_config(app)
    register_hooks()
    name = ENTRY.removesuffix(".jac")
    if app == app_dir():
        make_app_importable()
        entry = importlib.import_module(name)
    else:
        if name not in JacRuntime.loaded_modules:
            JacRuntime.jac_import(target=name, base_path=str(app), lng="jac")
        entry = JacRuntime.loaded_modules[name]
    return {
        walker.__name__: walker
        for walker in vars(entry).values()
        if inspect.isclass(walker) and issubclass(walker, WalkerArchetype)
    }


class Runtime:
    """Walkers over one store."""

    def __init__(self, app: Path, data: Path) -> None:
        """Load the app over the store of `data`, or the one that the environment names."""
        self.walkers = load_app(app)
        self.replies = {name: Reply(walker) for name, walker in self.walkers.items()}
        self.on_reports: Callable[[str, list[Any]], None] = lambda name, reports: None
        self.on_conflict: Callable[[], None] = lambda: None
        self.store = open_store(data)
        self._locks = SessionLocks.shared(data)
        self._turnstiles = [threading.Lock() for _ in range(TURNSTILES)]
        # The anchor above all users, shared by every request; nothing hangs on it.
        self._system_root = Root().__jac__
        self._system_root.id = SYSTEM_ROOT

    def call(self, name: str, fields: Fields, root: str) -> bytes:
        """Return the reports as JSON.

        This thread waits for models and embedders, without locking the session.
        """
        walk = Walk(name, fields, root, self.replies[name].encode)
        while isinstance(result := self.run(walk), PendingProviderCall):
            walk.answers.put(result, result.answer())
        return bytes(result)

    def run(self, walk: Walk) -> Any:
        """Return the walker's reports, once its changes are on disk; None if it told them before.

        Return a PendingProviderCall if the walker waits for one: run it again with the answer
        among the `answers`. Raise whatever the walker raises; then nothing is written.
        """
        try:
            return self._run(walk)
        except Damaged:
            key, owner = walk.fields().get("session"), UUID(walk.root)
            if not isinstance(key, str):
                raise
            with self._locks.hold(walk.root, key):
                if finding := first_damage(self.store, owner, key):
                    if not getattr(self.walkers[walk.name], "can_record_again", False):
                        raise
                    set_damaged_aside(self.store, owner, key, finding)
            return self._run(walk)

    def _run(self, walk: Walk) -> Any:
        def attempt(fields: Mapping[str, Any]) -> Any:
            try:
                return contextvars.copy_context().run(self._attempt, walk, fields)
            except PendingProviderCall as waiting:
                return waiting

        fields = walk.fields()
        turnstile = self._turnstiles[hash((walk.root, fields.get("session"))) % TURNSTILES]
        with turnstile:
            pass
        with suppress(_RunAgain):
            return attempt(fields)
        with turnstile:
            for attempt_number in range(MORE_ATTEMPTS):
                with suppress(_RunAgain):
                    return attempt(walk.fields())
                # The other request may be in another process, which has another turnstile.
                time.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.001 * 2**attempt_number)))
        raise _lost_race()

    @contextmanager
    def unit_of_work(self, root: str | None = None) -> Iterator[RequestMemory]:
        """Let Jac's calls work on one user's graph or as the system. Only `flush` writes."""
        memory = RequestMemory(self.store, None if root is None else UUID(root), self._locks)
        start = memory.root or self._system_root
        context = ExecutionContext(
            _parent=SimpleNamespace(
                mem=memory,
                system_root=self._system_root,
                user_root=start,
                entry_node=start,
                base_path_dir=None,
                full_target_path=None,
            )
        )
        token = JacRuntime.push_request_context(context)
        try:
            with as_current(memory), memory.on_end:
                yield memory
        finally:
            JacRuntime.reset_request_context(token)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
        self._locks.unshare()

    def _attempt(self, walk: Walk, fields: Mapping[str, Any]) -> Any:
        """Run a walker once; raise PendingProviderCall if a provider's answer is missing.

        Before the request's first answer, it returns the PendingProviderCall instead, because the
        new messages are stored. Raise _RunAgain after a lost race, Conflict if it cannot run again.
        """
        name, answers, walker_class = walk.name, walk.answers, self.walkers[walk.name]

        def tell(report: object) -> None:
            if not walk.early_reports and walk.tell:
                walk.early_reports.append(report)
                self.on_reports(name, walk.early_reports)
                walk.tell(report)

        TELL.set(walk.tell and tell)
        ANSWERS.set(answers)
        answers.has_taken = False
        with span(f"walker {name}"), self.unit_of_work(walk.root) as memory:
            memory.read_only = not walk.keep or not getattr(walker_class, "can_write", True)
            try:
                walker = walker_class(**fields)
                # Break its reference cycle with its anchor: it would outlive the request.
                memory.on_end.callback(vars(walker).clear)
                try:
                    Jac.spawn(walker, Jac.get_context().get_root())
                except PendingProviderCall as waiting:
                    # Before the first answer the walker has only recorded new messages: keep them.
                    if answers.has_taken:
                        raise
                    memory.flush()
                    return waiting
                reply = None if walk.early_reports else walk.form({"reports": walker.reports})
                memory.flush()
                Jac.get_context().run_pending_effects()
                if not walk.early_reports:
                    self.on_reports(name, walker.reports)
                return reply
            except WriteConflict:
                self.on_conflict()
                begun = memory.wrote and not getattr(walker, "is_resumable", False)
                raise (_lost_race() if begun else _RunAgain()) from None
            except ContextRenderError:
                raise
            except Exception as failure:
                self._explain(fields.get("session"), walk.root, failure)
                raise

    def _explain(self, session: object, root: str, failure: Exception) -> None:
        """Raise Damaged if a session's rows explain what went wrong."""
        if not isinstance(session, str):
            return
        finding = first_damage(self.store, UUID(root), session)
        if finding is not None and finding.edge is None:
            raise Damaged(
                f"session {session!r} is damaged ({finding.kind}: see `contextrender check`); "
                "export what is whole, or delete it"
            ) from failure


def _lost_race() -> Conflict:
    """Return the error of a request that running again did not help, or that wrote already."""
    return Conflict("Other requests keep changing the same data. Try again.")
