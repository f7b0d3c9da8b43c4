"""The primary killed with -9 under load; the service goes on with the synchronous standby.

One round, or `FAILOVER_ROUNDS`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from contextrender_bridge.base.settings import Settings

from graph.store.postgres import PostgresStore
from graph.store.writes import StoreUnavailable
from tests.graph.store.test_postgres import unit
from tests.support.persistent_agents import agents_at_work
from tests.support.postgres import Cluster, missing
from tests.support.replicated import PGBOUNCER, Pair, pair, pooled

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=missing() or "")]

ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "1"))


@pytest.fixture
def replicated() -> Iterator[Pair]:
    with pair() as made:
        yield made


def test_nothing_acknowledged_is_lost_when_the_primary_is_killed(
    replicated: Pair, tmp_path: Path
) -> None:
    with agents_at_work(replicated.address, tmp_path) as go_on:
        for _ in range(ROUNDS):
            go_on()
            replicated.kill_primary()
            replicated.promote()
            go_on()
            replicated.rejoin()


def test_a_primary_that_comes_back_alone_acknowledges_nothing(replicated: Pair) -> None:
    replicated.kill_primary()
    replicated.promote()
    old = replicated.standby
    old.start()
    store = None
    with pytest.raises(StoreUnavailable):
        store = PostgresStore(old.address, Settings(database_statement_timeout=0.5))
        store.write(unit(store))
    if store is not None:
        store.close()
    new = PostgresStore(replicated.primary.address, Settings())
    new.write(unit(new))
    new.close()


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")
def test_behind_a_pooler_in_transaction_mode(tmp_path: Path) -> None:
    with (
        Cluster.running() as cluster,
        pooled(cluster) as address,
        agents_at_work(address, tmp_path) as go_on,
    ):
        go_on()
