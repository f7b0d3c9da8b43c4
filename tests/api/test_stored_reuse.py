"""The Reuse edges in the database are the truth: a branch comes back from nothing but the graph."""

from math import fsum

from graph.sessions.caches import WORKING_SET
from tests.api.conftest import User
from tests.api.graph import drop_edges
from tests.support.transcripts import agent_run

RUN = agent_run(12)
VALUE = "ORD-1001"


def reported(alice: User, session: str) -> list[float]:
    """All c that explain reports, and how many uses it, the graph and a value's trace do."""
    rows = alice.api("explain", session=session)["results"]
    edges = alice.api("reuse_graph", session=session)["edges"]
    traced = alice.api("trace_value", session=session, value=VALUE)["uses"]
    told = [sum(len(row["uses"]) for row in rows), len(edges), len(traced)]
    return [fsum(row["reuse"] for row in rows), *told]


def test_what_is_reported_of_reuse_is_read_from_the_edges(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    drop_edges(alice.data, alice.root, "Reuse")
    alice.api("sync", session="t", messages=RUN)
    assert reported(alice, "s") == [0, 0, 0, 0]
    assert min(reported(alice, "t")) > 0


def test_a_history_read_from_the_graph_takes_its_reuse_from_the_edges(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    before = alice.api("inspect_session", session="s")
    assert before["uses"]
    WORKING_SET.clear()
    assert alice.api("inspect_session", session="s") == before
    drop_edges(alice.data, alice.root, "Reuse")
    WORKING_SET.clear()
    assert alice.api("inspect_session", session="s")["uses"] == 0
    state = WORKING_SET.get((alice.root, "s"))
    assert state is not None
    assert set(state.histories[0].reuse.scores()) == {0.0}
