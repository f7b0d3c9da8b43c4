"""What one request sees and writes: its own user's graph, committed once or not at all.

`fetch_fields` and `commit_now` are for walkers.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, cast
from uuid import UUID

from contextrender_bridge.errors import ContextRenderError
from jac_scale.memory_hierarchy import ScaleTieredMemory
from jaclang.jac0core.constant import Constants
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.runtimelib.changeset import ApplyReport, ChangeSet

from graph.runtime.sqlite import Database, StrictSqlite

SYSTEM_ROOT = UUID(Constants.SUPER_ROOT_UUID.value)


class Forbidden(ContextRenderError):
    """Something of another user's would be changed."""

    code = "forbidden"
    status = 403


class RequestMemory(ScaleTieredMemory):
    """The request's working set over SQLite, or over MongoDB where jac-scale is set up for it.

    The runtime commits when a walk ends and swallows what goes wrong, so `commit` does nothing
    here: `flush` writes, once the reply is known to be a success. A failed flush stays failed.
    """

    def __init__(self, database: Database | None) -> None:
        """Without a database, jac-scale's choice of backend."""
        super().__init__()
        if database is not None:
            self.l3 = StrictSqlite(database)
        else:
            setattr(self.l3, "apply", _all_or_error(self.l3.apply))  # noqa: B010
        self.owner: UUID | None = None
        # Left when the request ends, with its failure if it has one.
        self.held = ExitStack()
        self.wrote = False
        self._has_changes = False
        self._failure: BaseException | None = None

    def commit(self, anchor: object = None) -> None:
        """Wait for `flush`."""

    def flush(self) -> None:
        """Write everything changed so far, or raise."""
        if self._failure is not None:
            raise self._failure
        try:
            super().commit()
        except BaseException as failure:
            self._failure = failure
            raise
        self.wrote = self.wrote or self._has_changes

    def get(self, id: UUID) -> Any:
        """The anchor, if it is the owner's: the runtime itself lets anyone read any node by id."""
        return self._own(super().get(id))

    def batch_get(self, ids: list[UUID]) -> dict[UUID, Any]:
        """As `get`, for many."""
        found = super().batch_get(ids)
        return {id: anchor for id, anchor in found.items() if self._own(anchor) is not None}

    def appends_edges(self, node: UUID) -> bool:
        """Whether `append_edge` can be used: the node is in the database alone, which is ours."""
        ours = isinstance(self.l3, StrictSqlite) and self.l2 is None
        return ours and node not in self.__mem__

    def append_edge(self, node: UUID, edge: UUID) -> None:
        """With the next flush, list an edge at a node of the owner's that stays unloaded."""
        self.l3.append_edge(node, edge, self.owner)

    def close(self) -> None:
        """Drop what was not flushed."""
        self.changes.clear()
        loaded = [anchor for id, anchor in self.__mem__.items() if id != SYSTEM_ROOT]
        super().close()
        # Nodes, edges and their anchors refer to each other in circles: left so, the garbage of a
        # large request stops the process later, for a quarter of a second.
        for anchor in loaded:
            vars(anchor).clear()

    def _own(self, anchor: Any) -> Any:
        if self.owner is None or anchor is None or anchor.hash == 0:
            return anchor
        return anchor if self.owner in (anchor.root, anchor.id) else None

    def _collect_into(self, changes: ChangeSet) -> None:
        super()._collect_into(changes)
        self._has_changes = not changes.is_empty()
        if Jac.get_context().diagnostics:
            raise Forbidden("This would change data of another user.")

    def _post_apply(self, report: ApplyReport) -> None:
        """Note what was written, so that the next flush does not write it again.

        Deleting an edge names its ends by copies of their anchors, and the runtime would note it on
        those: the second flush would then bring back an end that somebody deleted in between.
        """
        for intent in self.changes.intents.values():
            intent.anchor = self.__mem__.get(intent.anchor.id, intent.anchor)
        super()._post_apply(report)


def request_memory() -> RequestMemory:
    """The current request's."""
    return cast(RequestMemory, Jac.get_context().mem)


def hold_until_done(lock: Any) -> None:
    """Takes a lock that the current request gives back when it ends."""
    request_memory().held.enter_context(lock)


def fetch_fields(ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The committed fields of the caller's nodes, by id as it was given; unknown ids are left out.

    Building no archetypes, it reads ten times faster than loading the nodes. What this request
    changed is visible after `commit_now`.
    """
    by_key = {str(UUID(id)): id for id in ids}
    context = Jac.get_context()
    backend = context.mem.l3
    if isinstance(backend, StrictSqlite):
        rows = backend.read_fields(by_key, str(context.user_root.id))
        return {by_key[key]: fields for key, fields in rows.items()}
    anchors = context.mem.batch_get([UUID(key) for key in by_key])
    return {
        by_key[str(id)]: {
            name: value
            for name, value in vars(anchor.archetype).items()
            if not name.startswith("_")
        }
        for id, anchor in anchors.items()
    }


def commit_now() -> None:
    """Write this request's changes now, inside whatever lock the walker holds; raises on failure.

    A walker that fails later keeps what was written here.
    """
    memory = Jac.get_context().mem
    if isinstance(memory, RequestMemory):
        memory.flush()
    else:
        memory.commit()


def _all_or_error(
    apply: Callable[[ChangeSet], ApplyReport],
) -> Callable[[ChangeSet], ApplyReport]:
    def strict(changes: ChangeSet) -> ApplyReport:
        report = apply(changes)
        if (report.failed or report.skipped) and not report.conflicts:
            raise OSError("the database did not take every write")
        return report

    return strict
