"""Both stores write a batch completely or not at all, and never over another writer's change."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from contextrender_bridge.runtime.identities import Identities, NameTaken
from contextrender_bridge.runtime.jac_db import OperatorMemory
from contextrender_bridge.sessions.findings import put_aside
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import OtherLayout, Store
from contextrender_bridge.store.writes import WriteBatch, WriteConflict

OWNER, STRANGER = uuid4(), uuid4()


def row(**fields: object) -> bytes:
    return rows.pack(rows.encode(fields))


def insert(store: Store, id: UUID) -> None:
    kind = store.kinds.number("nodes.session", "Session")
    store.write(WriteBatch(insert_nodes=[(OWNER, id, kind, None, row(key=str(id)))]))


def update(id: UUID, rev: int, **fields: object) -> WriteBatch:
    return WriteBatch(update_nodes=[(row(**fields), OWNER, id, rev)])


def fields_of(store: Store, id: UUID, owner: UUID = OWNER) -> dict[str, object] | None:
    all_fields = [rows.read_fields(data) for _, _, _, data in store.nodes(owner, [id])]
    return all_fields[0] if all_fields else None


def test_node_is_read_by_its_owner_only(store: Store) -> None:
    id = uuid4()
    insert(store, id)
    assert fields_of(store, id) == {"key": str(id)}
    assert fields_of(store, id, STRANGER) is None


def test_conflicting_update_raises_write_conflict(store: Store) -> None:
    id = uuid4()
    insert(store, id)
    store.write(update(id, 1, key="first"))
    for late in (update(id, 1, key="second"), WriteBatch(delete_nodes=[(OWNER, id, 1)])):
        with pytest.raises(WriteConflict):
            store.write(late)
    with pytest.raises(WriteConflict):
        insert(store, id)
    assert fields_of(store, id) == {"key": "first"}


def test_fence_refuses_write_based_on_old_revision(store: Store) -> None:
    session, new_node = uuid4(), uuid4()
    insert(store, session)
    store.write(update(session, 1, key="newer"))
    kind = store.kinds.number("nodes.events", "Message")
    unit = WriteBatch(
        insert_nodes=[(OWNER, new_node, kind, None, row(text="late"))],
        increment_revisions=[(OWNER, session, 1)],
    )
    with pytest.raises(WriteConflict):
        store.write(unit)
    assert fields_of(store, new_node) is None


def test_concurrent_updates_lose_nothing(store: Store) -> None:
    id = uuid4()
    insert(store, id)

    def count(turn: int) -> None:
        while True:
            ((_, rev, _, data),) = store.nodes(OWNER, [id])
            number = int(rows.read_fields(data).get("n", 0))
            try:
                return store.write(update(id, rev, n=number + 1))
            except WriteConflict:
                continue

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(40)))
    assert fields_of(store, id) == {"n": 40}


def test_deleting_node_deletes_its_edges(store: Store) -> None:
    ids = [uuid4() for _ in range(3)]
    for id in ids:
        insert(store, id)
    kind = store.kinds.number("nodes.edges", "Next")
    pairs = [(ids[0], ids[1]), (ids[1], ids[2]), (ids[0], ids[2])]
    edges: list[Any] = [(OWNER, source, kind, target, None) for source, target in pairs]
    for _ in range(2):  # a repeated write is harmless
        store.write(WriteBatch(upsert_edges=edges))
    assert len(list(store.edges(OWNER, [ids[0]]))) == 2
    store.write(WriteBatch(delete_nodes=[(OWNER, ids[1], 1)]))
    assert [edge[::2][:2] for edge in store.edges(OWNER, [ids[0]])] == [(ids[0], ids[2])]
    store.write(WriteBatch(delete_edges=[(OWNER, ids[0], kind, ids[2])]))
    assert not list(store.edges(OWNER, [ids[0]]))


def test_other_layout_is_refused(store: Store) -> None:
    with store.transaction() as cursor:
        cursor.execute("UPDATE meta SET value = '99' WHERE name = 'layout'")
    with pytest.raises(OtherLayout, match="99"), store.transaction() as cursor:
        store.create_tables(cursor, ["SELECT 1"])


def test_unloadable_row_is_quarantined_and_recovered(store: Store) -> None:
    operator, id = OperatorMemory(store), uuid4()
    kind = store.kinds.number("nodes.gone", "Renamed")
    data = row(key="kept", created_at=1.0)
    store.write(WriteBatch(insert_nodes=[(OWNER, id, kind, None, data)]))
    assert operator.get(id) is None
    assert fields_of(store, id) == {"key": "kept", "created_at": 1.0}
    put_aside(store, OWNER, id, "no such type")
    assert fields_of(store, id) is None
    assert [entry["id"] for entry in operator.list_quarantined()] == [str(id)]
    assert operator.inspect_summary()["quarantine_by_type"] == [("Renamed", 1)]
    assert operator.recover_one(str(id)[:8]) == (False, "there is no such type")
    sound = uuid4()
    insert(store, sound)
    put_aside(store, OWNER, sound, "a mistake")
    assert operator.recover_all() == (1, [(str(id), "there is no such type")])
    assert operator.get(sound).archetype.key == str(sound)


def test_second_user_of_a_name_is_refused(store: Store) -> None:
    users = Identities(store)
    name = {"type": "username", "value_raw": "Alice", "value_normalized": "alice"}
    first, other = ({"user_id": id, "identities": [name], "root_id": id} for id in ("one", "other"))
    users._store_user(first)
    with pytest.raises(NameTaken):
        users._store_user(other)
    assert store.read("SELECT user_id FROM identity_users") == [("one",)]
