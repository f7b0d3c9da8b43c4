"""Machines of a PostgreSQL cluster that lose power under load: Patroni promotes, agents go on.

One round, or `FAILOVER_ROUNDS`. A round waits for as long as Patroni waits for a dead leader.
"""

import os
from pathlib import Path

import pytest

from tests.support.patroni import kept_going, missing
from tests.support.persistent_agents import agents_at_work

ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "1"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]


def test_nothing_acknowledged_is_lost_when_a_machine_loses_power(tmp_path: Path) -> None:
    with (
        kept_going() as cluster,
        agents_at_work(cluster.address, tmp_path, cluster.says) as go_on,
    ):
        for _ in range(ROUNDS):
            go_on()
            leader = cluster.leader
            assert leader is not None
            leader.kill()
            go_on()
            assert cluster.leader not in (None, leader)
            leader.start()
            cluster.wait_for_both()
