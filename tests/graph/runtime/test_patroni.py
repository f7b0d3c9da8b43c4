"""Machines of a PostgreSQL cluster that lose power under load: Patroni promotes, agents go on.

Part of `make chaos`: `FAILOVER_ROUNDS` says how often. A round waits for as long as Patroni waits
for a dead leader.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.graph.runtime.test_failover import AGENTS, Agent, go_on, served
from tests.support.patroni import kept_going, missing

ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "0"))
pytestmark = [
    pytest.mark.skipif(not ROUNDS, reason="a part of `make chaos`"),
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]


def test_nothing_acknowledged_is_lost_when_a_machine_loses_power(tmp_path: Path) -> None:
    ended = threading.Event()
    with (
        kept_going() as cluster,
        served(cluster.address, tmp_path) as server,
        ThreadPoolExecutor(AGENTS) as threads,
    ):
        agents = [Agent(server, f"session-{number}") for number in range(AGENTS)]
        runs = [threads.submit(agent.run, ended) for agent in agents]
        try:
            for _ in range(ROUNDS):
                go_on(agents, runs)
                leader = cluster.leader
                assert leader is not None
                leader.kill()
                go_on(agents, runs)
                assert cluster.leader not in (None, leader)
                leader.start()
                cluster.wait_for_both()
        finally:
            ended.set()
        for run in runs:
            run.result()
        for agent in agents:
            assert agent.stored()[: len(agent.acknowledged)] == agent.acknowledged
