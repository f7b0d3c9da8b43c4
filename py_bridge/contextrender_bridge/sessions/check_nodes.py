"""The check of a session's nodes against its stored numbers and digests."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from contextrender_bridge.engine.history.branch_matching import ROOT, BranchInfo
from contextrender_bridge.engine.history.event_decoding import is_event, is_intact
from contextrender_bridge.sessions.findings import Kind, StoreFinding
from contextrender_bridge.sessions.ids import (
    branch_id,
    event_id,
    event_ids,
    ids_of_session,
    session_id_of,
)
from contextrender_bridge.sessions.session_nodes import count_branches
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Store

ReadProblem = Callable[[tuple[str, str], bytes], str]
"""A function that returns why the program cannot read a row as the named type, or ""."""
Fields = Mapping[str, Any]


class NodeCheck:
    """The readable nodes of a session, complete once `findings` has checked them.

    - `readable`: the fields of the nodes that can be read.
    - `unread_calls`: the model calls that cannot be read.
    - `intact`: for each branch, the number of events before its first corrupted or missing one.
    """

    def __init__(
        self,
        store: Store,
        owner: UUID,
        session: UUID,
        read_problem: ReadProblem,
        node_ids: set[UUID],
    ) -> None:
        """Prepare the check of a session whose nodes have the ids `node_ids`."""
        self.store, self.owner, self.session = store, owner, session
        self._read_problem, self.node_ids = read_problem, node_ids
        self._key = str(session)
        self.readable: dict[UUID, Fields] = {}
        self.branches: list[BranchInfo | None] = []
        self.intact: list[int] = []
        self.unread_calls: set[UUID] = set()

    def findings(self) -> Iterator[StoreFinding]:
        """Yield the findings in a session's nodes, and fill the attributes of this check.

        First come the nodes that cannot be read, then the findings in the session's own node, and
        finally the missing and corrupted branches and events.
        """
        yield from self._unreadable()
        # Use the session's name in the findings, or its id if the name is unknown.
        node = self.readable.get(self.session, {})
        self._key = str(node.get("key", self.session))
        # Count the branches by the ids of the session's nodes.
        parts = self.store.ids_between(self.owner, *ids_of_session(self.session))
        branch_count = count_branches(id for id in parts if id != self.session)
        if node:
            yield from self._session_findings(node)
        elif branch_count:
            yield self.finding("missing", f"the node of session {self.session}")
        # If the nodes of the last branches are missing, only the session's node has the count.
        stored_count = node.get("branches", 0)
        if isinstance(stored_count, int):
            branch_count = max(branch_count, stored_count)
        for number in range(branch_count):
            fields = self.readable.get(branch_id(self.session, number))
            info = BranchInfo.from_stored(fields, number)
            self.branches.append(info)
            if info is None:
                yield self.finding("missing", f"branch {number}")
                self.intact.append(0)
            else:
                yield from self._events(info)

    def _session_findings(self, node: Fields) -> Iterator[StoreFinding]:
        """Yield that the session's node has a wrong name or place, or that it was set aside."""
        # The id is computed from the name.
        if session_id_of(self.owner, self._key) != self.session:
            yield self.finding("corrupted", f"the name of session {self.session}")
        # A session is listed by its creation time.
        if revision := self.store.revision_of(self.owner, self.session):
            _, listed = revision
            if listed != node.get("created_at"):
                yield self.finding("corrupted", "the session's place in the list of sessions")
        if damage := node.get("damage"):
            yield self.finding("set aside", f"damaged: {damage}")

    def _unreadable(self) -> Iterator[StoreFinding]:
        """Yield the nodes that cannot be read, and store the fields of the others in `readable`."""
        for id, _, kind, data in self.store.nodes(self.owner, self.node_ids):
            name = self.store.kinds.name(kind)
            if problem := self._read_problem(name, data):
                yield self.finding("unreadable", f"{'.'.join(name)} {id}: {problem}", node=id)
                if name[1] == "ModelCall":
                    self.unread_calls.add(id)
            else:
                self.readable[id] = rows.read_fields(data)

    def _events(self, info: BranchInfo) -> Iterator[StoreFinding]:
        """Yield the missing events of a branch, and the messages whose digest is wrong.

        A message has one or several events. Its digest is computed from its events and the digest
        of the message before, so it can be checked only if that message exists. Also append to
        `intact` the number of the branch's events before the first corrupted or missing one.
        """
        digest_before = self._digest_before(info)  # None if the message before is missing
        intact_count = self._intact_before(info)
        event = info.fork_events  # the first event of the next message
        while event < info.events:
            message_events = self._message_events(info, event)
            if not message_events:
                yield self.finding("missing", f"event {event} of branch {info.number}")
                digest_before = None
                intact_count = min(intact_count, event)
                event += 1
                continue
            stop = event + len(message_events)
            if digest_before is not None and not is_intact(message_events, digest_before):
                # If the next event is missing, it may belong to this message. That explains the
                # wrong digest, so only the missing event is reported.
                is_complete = stop == info.events or self._event_fields(info, stop)
                if is_complete:
                    message = f"message {message_events[0]['position']} of branch {info.number}"
                    yield self.finding("corrupted", message)
                intact_count = min(intact_count, event)
            digest_before = message_events[0]["digest"]
            event = stop
        self.intact.append(intact_count)

    def _message_events(self, info: BranchInfo, first: int) -> list[Fields]:
        """Return the fields of the events of one message, whose first event has number `first`.

        Stop before a missing event. Return an empty list if the first event itself is missing.
        """
        message_events: list[Fields] = []
        for event in range(first, info.events):
            fields = self._event_fields(info, event)
            if fields is None:
                break
            if message_events and fields["position"] != message_events[0]["position"]:
                break
            message_events.append(fields)
        return message_events

    def _event_fields(self, info: BranchInfo, event: int) -> Fields | None:
        """Return the fields of a branch's event; None if it is missing or corrupted."""
        fields = self.readable.get(event_id(self.session, info.number, event))
        return fields if fields is not None and is_event(fields, event) else None

    def event_ids_of(self, info: BranchInfo) -> list[UUID] | None:
        """Return the ids of a branch's events, including the events before its fork.

        Return None if its parent, or a parent of that branch, is missing.
        """
        number = info.parent
        while number != ROOT:
            if not 0 <= number < len(self.branches) or self.branches[number] is None:
                return None
            number = self.branches[number].parent  # type: ignore[union-attr]
        return event_ids(self.session, self.known_branches, info.number, range(info.events))

    @property
    def known_branches(self) -> list[BranchInfo]:
        """All branches, with an empty BranchInfo in place of a missing branch."""
        return [info or BranchInfo(number) for number, info in enumerate(self.branches)]

    def _intact_before(self, info: BranchInfo) -> int:
        """Return how many of a branch's events are intact according to the check of its parent.

        A branch shares the events before its fork with its parent. If one of them is damaged,
        return the number of events before it. Otherwise return the number of all events of the
        branch, because its own events are not checked yet.
        """
        if not 0 <= info.parent < len(self.intact):
            return info.events
        parent_intact = self.intact[info.parent]
        return parent_intact if parent_intact < info.fork_events else info.events

    def _digest_before(self, info: BranchInfo) -> str | None:
        """Return the digest of the last message before a branch's fork, empty if it has no fork.

        Return None if that message is missing.
        """
        if info.fork_events == 0:
            return ""
        ids = self.event_ids_of(info)
        last = self.readable.get(ids[info.fork_events - 1]) if ids else None
        return last.get("digest") if last else None

    def finding(self, kind: Kind, message: str, **more: Any) -> StoreFinding:
        """Return a finding in this session."""
        return StoreFinding(kind, message, self.owner, self._key, **more)
