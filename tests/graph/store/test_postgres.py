"""PostgreSQL specifics: outages, several hosts, limits and partitions."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.store.postgres import PostgresStore
from contextrender_bridge.store.writes import StoreUnavailable, WriteBatch

from tests.graph.store.test_store import OWNER, row
from tests.support.postgres import Cluster, find_missing_part
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_missing_part() is not None, reason=find_missing_part() or ""),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster.running() as running_cluster:
        yield running_cluster


def unit(store: PostgresStore) -> WriteBatch:
    kind = store.kinds.number("nodes.session", "Session")
    return WriteBatch(insert_nodes=[(OWNER, uuid4(), kind, None, row(key="k"))])


def test_store_fails_during_outage_and_recovers(cluster: Cluster) -> None:
    store = PostgresStore(cluster.address, Settings())
    store.write(unit(store))
    cluster.stop()
    for call in (lambda: store.write(unit(store)), lambda: store.read("SELECT 1")):
        with pytest.raises(StoreUnavailable):
            call()
    cluster.start()

    def writes() -> bool:
        with suppress(StoreUnavailable):
            store.write(unit(store))
            return True
        return False

    wait_until(writes)
    assert store.read("SELECT count(*) FROM nodes") == [(2,)]
    store.close()


def test_unreachable_database_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="postgresql://"):
        PostgresStore(f"postgresql://postgres@/x?host={tmp_path}", Settings())


def test_writable_host_of_several_is_used(cluster: Cluster, tmp_path: Path) -> None:
    store = PostgresStore(cluster.address.replace("host=", f"host={tmp_path},"), Settings())
    store.write(unit(store))
    store.close()


def test_statement_timeout_follows_settings(cluster: Cluster) -> None:
    store = PostgresStore(cluster.address, Settings(database_statement_timeout=0.05))
    with pytest.raises(StoreUnavailable):
        store.read("SELECT pg_sleep(5)")
    store.close()


def test_tables_can_be_partitioned_by_owner(cluster: Cluster) -> None:
    """Every key begins with the owner, so tables can be partitioned by the owner's hash."""
    store = PostgresStore(cluster.address, Settings())
    with store.transaction() as cursor:
        cursor.execute("DROP TABLE nodes")
        cursor.execute(
            "CREATE TABLE nodes (owner UUID, id UUID, rev BIGINT, kind SMALLINT, "
            "listed DOUBLE PRECISION, data BYTEA, PRIMARY KEY (owner, id)) "
            "PARTITION BY HASH (owner)"
        )
        for part in range(4):
            cursor.execute(
                f"CREATE TABLE nodes_{part} PARTITION OF nodes "
                f"FOR VALUES WITH (MODULUS 4, REMAINDER {part})"
            )
    batch = unit(store)
    store.write(batch)
    id = batch.insert_nodes[0][1]
    assert [node[0] for node in store.nodes(OWNER, [id])] == [id]
    plan = store.read("EXPLAIN SELECT data FROM nodes WHERE owner = ? AND id IN (?)", (OWNER, id))
    assert len({name for (line,) in plan for name in line.split() if name[:6] == "nodes_"}) <= 2
    store.close()
