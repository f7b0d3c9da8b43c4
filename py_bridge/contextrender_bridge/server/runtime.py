"""The Jac app in this process, and the runs of its walkers, each for one user's graph.

Long because retries, early replies and stops for providers all belong to a run.
"""

import contextvars
import importlib
import inspect
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
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
from contextrender_bridge.runtime.memory import CURRENT, SYSTEM_ROOT, RequestMemory
from contextrender_bridge.runtime.request import SEND_REPLY, SendReply, register_hooks
from contextrender_bridge.runtime.session_lease import SessionLocks
from contextrender_bridge.server.damaged_sessions import first_damage, set_damaged_aside
from contextrender_bridge.server.http.bodies import Reply
from contextrender_bridge.sessions.ids import CALLER
from contextrender_bridge.store.opening import open_store
from contextrender_bridge.store.writes import WriteConflict

# If two requests change the same rows, the later one runs again under a start lock. Meanwhile no
# other request of its session begins in this process, which could overtake it again.
MAX_RETRIES: Final = 40
START_LOCKS: Final = 256
MAX_PAUSE_SECONDS: Final = 0.05


@dataclass(frozen=True)
class WalkerRun:
    """A run of a walker at a user's root, which may take several attempts.

    `fields` are the walker's fields for the first attempt, which may change them, and `read_fields`
    reads them for another attempt. `encode` encodes its reply. `root` is the id of the user's root.
    `send_early` sends an encoded reply before the changes are on disk; then `early_reports` has the
    report in it. If `can_write` is False, nothing is written.
    """

    name: str
    fields: Mapping[str, Any]
    read_fields: Callable[[], Mapping[str, Any]]
    root: str
    encode: Callable[[Any], Any]
    answers: ProviderAnswers = field(default_factory=ProviderAnswers)
    send_early: SendReply | None = None
    can_write: bool = True
    early_reports: list[object] = field(default_factory=list)


class _Retry(Exception):
    """Raised when another request changed rows that this request has read; it can run again."""


def load_app(app: Path) -> dict[str, type]:
    """Import the app in the folder `app`, and return the walkers of its entry file by name.

    Also set up Jac for this process: its configuration and our hooks.
    """
    set_config(JacConfig.load(app / "jac.toml"))
    reset_scale_config()
    get_scale_config(app)  # The first call after a reset loads the configuration.
    register_hooks()
    # The package's own app is an importable module. Jac imports any other app from its folder.
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
    """The walkers of an app, with one store. `on_conflict` is called after each write conflict."""

    def __init__(self, app: Path, data: Path) -> None:
        """Load the app, and open the store of the settings, or by default the one in `data`."""
        self.walkers = load_app(app)
        self.replies = {name: Reply(walker) for name, walker in self.walkers.items()}
        self.on_reports: Callable[[str, list[Any]], None] = lambda name, reports: None
        self.on_conflict: Callable[[], None] = lambda: None
        self.store = open_store(data)
        self._locks = SessionLocks.shared(data)
        # Requests that were overtaken run again under the start lock of their session.
        self._start_locks = [threading.Lock() for _ in range(START_LOCKS)]
        # The system's root, which all requests share. It has no edges.
        self._system_root = Root().__jac__
        self._system_root.id = SYSTEM_ROOT

    def call(self, name: str, fields: Mapping[str, Any], root: str) -> bytes:
        """Run a walker and return its reply as JSON.

        If the walker needs a provider's answer, wait for it in this thread and run it again.
        """
        run = WalkerRun(name, fields, lambda: fields, root, self.replies[name].encode)
        while isinstance(result := self.run(run), PendingProviderCall):
            run.answers.put(result, result.answer())
        return bytes(result)

    def run(self, run: WalkerRun) -> Any:
        """Run a walker, and return its reply once its changes are on disk.

        Return None if the reply was sent early. Return a PendingProviderCall if the walker needs a
        provider's answer; the caller then runs it again with the answer in `run.answers`. Raise the
        walker's error; then nothing is written. If the session is damaged and the walker can record
        it again, move the session to another name and run the walker again. If the walker cannot,
        raise Damaged, unless the damage is gone.
        """
        try:
            return self._run_with_retries(run)
        except Damaged:
            key, owner = run.fields.get("session"), UUID(run.root)
            if not isinstance(key, str):
                raise
            # Lock the session, so that no request writes it. Then move it to another name, or check
            # it. If no damage is found, another request has replaced the session meanwhile.
            with self._locks.hold(run.root, key):
                if getattr(self.walkers[run.name], "can_record_again", False):
                    set_damaged_aside(self.store, owner, key)
                elif first_damage(self.store, owner, key):
                    raise
            return self._run_with_retries(replace(run, fields=run.read_fields()))

    def _run_with_retries(self, run: WalkerRun) -> Any:
        """Run a walker, and run it again after each conflict. Raise Conflict after MAX_RETRIES.

        During the later attempts, hold a start lock, so that no other request of the session begins
        in this process and causes the next conflict.
        """

        def attempt(fields: Mapping[str, Any]) -> Any:
            """Run the walker once, with its own context variables. Raise _Retry if it conflicts."""
            try:
                return contextvars.copy_context().run(self._attempt, run, fields)
            except PendingProviderCall as call:
                # The walker needs a model first, and has written nothing. The caller calls the
                # model and runs the walker anew, so the attempts end as with a reply.
                return call

        # Sessions with the same hash share a start lock.
        session = run.fields.get("session")
        start_lock = self._start_locks[hash((run.root, session)) % START_LOCKS]
        with start_lock:
            pass  # Wait while another request holds the lock for its later attempts.
        with suppress(_Retry):
            return attempt(run.fields)
        with start_lock:
            for retry_number in range(MAX_RETRIES):
                with suppress(_Retry):
                    return attempt(run.read_fields())
                # The other request may be in another process, which has its own start locks.
                time.sleep(random.uniform(0, min(MAX_PAUSE_SECONDS, 0.001 * 2**retry_number)))
        raise _conflict()

    @contextmanager
    def unit_of_work(self, root: str | None = None) -> Iterator[RequestMemory]:
        """Let Jac use the graph of the user with the root `root` in the block.

        If `root` is None, use the system's root. Yield the request's memory. Changes are written
        only if the block calls its `flush`.
        """
        memory = RequestMemory(self.store, None if root is None else UUID(root), self._locks)
        entry = memory.root or self._system_root
        # jaclang takes the memory and the roots of a walk from an object with these attributes.
        context = ExecutionContext(
            _parent=SimpleNamespace(
                mem=memory,
                system_root=self._system_root,
                user_root=entry,
                entry_node=entry,
                base_path_dir=None,
                full_target_path=None,
            )
        )
        token = JacRuntime.push_request_context(context)
        current, caller = CURRENT.set(memory), CALLER.set(memory.owner or SYSTEM_ROOT)
        try:
            with memory.on_end:  # The end of this block releases the request's locks.
                yield memory
        finally:
            CALLER.reset(caller)
            CURRENT.reset(current)
            memory.close()
            JacRuntime.reset_request_context(token)

    def close(self) -> None:
        """Close the store, and stop using the folder's session locks."""
        self.store.close()
        self._locks.unshare()

    def _attempt(self, run: WalkerRun, fields: Mapping[str, Any]) -> Any:
        """Run a walker once in a unit of work of its own, and return what `_walk` returns.

        After a conflict, raise _Retry, or Conflict if the walker cannot run again. After an error
        that damaged rows may have caused, raise Damaged.
        """
        walker_class = self.walkers[run.name]
        SEND_REPLY.set(partial(self._send_early, run) if run.send_early else None)
        ANSWERS.set(run.answers)
        with span(f"walker {run.name}"), self.unit_of_work(run.root) as memory:
            memory.read_only = not run.can_write or not getattr(walker_class, "can_write", True)
            try:
                return self._walk(run, walker_class(**fields), memory)
            except WriteConflict:
                self.on_conflict()
                # If it has committed before, a second run would repeat what it did.
                if memory.wrote and not getattr(walker_class, "is_resumable", False):
                    raise _conflict() from None
                raise _Retry from None
            except ContextRenderError:
                raise
            except Exception as failure:
                self._raise_if_damaged(fields.get("session"), run.root, failure)
                raise

    def _walk(self, run: WalkerRun, walker: Any, memory: RequestMemory) -> Any:
        """Run a walker, write its changes, and return its reply, or None if it was sent early.

        If the walker needs an answer that `run.answers` lacks, it stops with a PendingProviderCall:

        - If it has used no answer before, write its changes, which are new messages, and return
          the PendingProviderCall.
        - If it has used an answer, write nothing, and raise the PendingProviderCall. Changes that
          depend on answers are written when the walker has all of its answers.
        """
        # Break the walker's reference cycle with its anchor, to free it with the request.
        memory.on_end.callback(vars(walker).clear)
        run.answers.has_taken = False  # It becomes true when the walker uses an answer.
        try:
            Jac.spawn(walker, Jac.get_context().get_root())
        except PendingProviderCall as call:
            if run.answers.has_taken:
                raise
            memory.flush()
            return call
        reply = None if run.early_reports else run.encode({"reports": walker.reports})
        memory.flush()
        Jac.get_context().run_pending_effects()
        if not run.early_reports:
            self.on_reports(run.name, walker.reports)
        return reply

    def _send_early(self, run: WalkerRun, report: object) -> None:
        """Send a report as the only reply, unless an earlier attempt has sent one."""
        if not run.early_reports and run.send_early:
            run.early_reports.append(report)
            self.on_reports(run.name, run.early_reports)
            run.send_early(run.encode({"reports": run.early_reports}))

    def _raise_if_damaged(self, session: object, root: str, failure: Exception) -> None:
        """Raise Damaged if a damaged node of the session may have caused the failure.

        Damaged edges are not considered. `session` is the request's field, which may be no text.
        """
        if not isinstance(session, str):
            return
        finding = first_damage(self.store, UUID(root), session)
        if finding is not None and finding.edge is None:
            raise Damaged(
                f"session {session!r} is damaged ({finding.kind}: see `contextrender check`); "
                "export what is whole, or delete it"
            ) from failure


def _conflict() -> Conflict:
    """Return the error of a request that cannot run again after a conflict.

    Either it had too many conflicts, or it had already written.
    """
    return Conflict("Other requests keep changing the same data. Try again.")
