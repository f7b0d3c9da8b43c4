"""A session's nodes against what its numbers and digests say must be there."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from contextrender_bridge.engine.history.event_decoding import is_event, is_intact
from contextrender_bridge.engine.history.session_cache import ROOT, BranchInfo
from contextrender_bridge.sessions.findings import Finding, Kind
from contextrender_bridge.sessions.ids import branch_id, event_id, event_ids, ids_of_session
from contextrender_bridge.sessions.session_nodes import count_branches
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Store

Unreadable = Callable[[tuple[str, str], bytes], str]
"""Why a stored row is none of the type of that name to this program; empty where it is."""
Fields = Mapping[str, Any]


class NodeCheck:
    """What there is of a session, known once `findings` has told what is wrong with its nodes.

    `found` are the fields of nodes that can be read, `unread` those of model calls that cannot;
    `sound` is, of each branch, the number of events of its line before the first that is not whole.
    """

    def __init__(
        self, store: Store, owner: UUID, session: UUID, unreadable: Unreadable, belong: set[UUID]
    ) -> None:
        """`belong` are the ids of its nodes."""
        self.store, self.owner, self.session = store, owner, session
        self._unreadable_as, self.belong = unreadable, belong
        self._key = str(session)
        self.found: dict[UUID, Fields] = {}
        self.branches: list[BranchInfo | None] = []
        self.sound: list[int] = []
        self.unread: set[UUID] = set()

    def findings(self) -> Iterator[Finding]:
        """Nodes that cannot be read; branches and events that are lost or changed."""
        yield from self._unreadable()
        node = self.found.get(self.session, {})
        self._key = str(node.get("key", self.session))
        parts = self.store.ids_between(self.owner, *ids_of_session(self.session))
        count = count_branches(id for id in parts if id != self.session)
        if count and not node:
            yield self.finding("missing", f"the node of session {self.session}")
        if damage := node.get("damage"):
            yield self.finding("set aside", f"damaged: {damage}")
        said = node.get("branches", 0)
        for number in range(max(count, said if isinstance(said, int) else 0)):
            info = BranchInfo.from_stored(self.found.get(branch_id(self.session, number)), number)
            self.branches.append(info)
            if info is None:
                yield self.finding("missing", f"branch {number}")
                self.sound.append(0)
            else:
                yield from self._events(info)

    def _unreadable(self) -> Iterator[Finding]:
        for id, _, kind, data in self.store.nodes(self.owner, self.belong):
            name = self.store.kinds.name(kind)
            if why := self._unreadable_as(name, data):
                yield self.finding("unreadable", f"{'.'.join(name)} {id}: {why}", node=id)
                if name[1] == "ModelCall":
                    self.unread.add(id)
            else:
                self.found[id] = rows.read(data)[1]

    def _events(self, info: BranchInfo) -> Iterator[Finding]:
        """A branch's own events, one by one, and each message against its digest."""
        before = self._digest_before(info)
        sound, message = self._sound_before(info), list[Fields]()
        for event in range(info.fork_events, info.events + 1):
            id = event_id(self.session, info.number, event)
            fields = self.found.get(id) if event < info.events else None
            whole = fields is not None and is_event(fields, event)
            if message and (not whole or fields["position"] != message[0]["position"]):  # type: ignore[index]
                start = event - len(message)
                if before is not None and not is_intact(message, before):
                    # If the next event is lost, it may be of this message: that finding is enough.
                    if whole or event == info.events:
                        told = f"message {message[0]['position']} of branch {info.number}"
                        yield self.finding("corrupted", told)
                    sound = min(sound, start)
                before = message[0]["digest"]
                message = []
            if whole:
                assert fields is not None
                message.append(fields)
            elif event < info.events:
                yield self.finding("missing", f"event {event} of branch {info.number}")
                before = None
                sound = min(sound, event)
        self.sound.append(min(sound, info.events))

    def line(self, info: BranchInfo) -> list[UUID] | None:
        """The ids of all events of a branch's line; None where a branch that it goes on from is
        lost."""
        number = info.parent
        while number != ROOT:
            if not 0 <= number < len(self.branches) or self.branches[number] is None:
                return None
            number = self.branches[number].parent  # type: ignore[union-attr]
        return event_ids(self.session, self.known_branches, info.number, range(info.events))

    @property
    def known_branches(self) -> list[BranchInfo]:
        """Every branch; in the place of one that is lost, an empty one."""
        return [one or BranchInfo(place) for place, one in enumerate(self.branches)]

    def _sound_before(self, info: BranchInfo) -> int:
        """As many events as a line may be whole, by what its parent's is."""
        if not 0 <= info.parent < len(self.sound):
            return info.events
        shared = self.sound[info.parent]
        return shared if shared < info.fork_events else info.events

    def _digest_before(self, info: BranchInfo) -> str | None:
        """The digest of what comes before a branch's own events; None where it cannot be told."""
        if info.fork_events == 0:
            return ""
        ids = self.line(info)
        last = self.found.get(ids[info.fork_events - 1]) if ids else None
        return last.get("digest") if last else None

    def finding(self, kind: Kind, told: str, **more: Any) -> Finding:
        """One of this session."""
        return Finding(kind, told, self.owner, self._key, **more)
