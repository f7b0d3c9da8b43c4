"""The Reuse edges in the database are the truth: a branch comes back from nothing but the graph."""

from typing import Any
from uuid import UUID

from graph.sessions.caches import WORKING_SET
from tests.api.conftest import User
from tests.api.graph import reading
from tests.support.transcripts import agent_run, step, user

RUN = agent_run(12)
USES = 12


def test_a_history_read_from_the_graph_takes_its_reuse_from_the_edges(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    assert alice.api("inspect_session", session="s")["uses"]
    kind = "(SELECT number FROM kinds WHERE name = 'Reuse')"
    with reading(alice.data) as run:
        run(f"DELETE FROM edges WHERE owner = ? AND kind = {kind}", UUID(alice.root))
    WORKING_SET.clear()
    assert alice.api("inspect_session", session="s")["uses"] == 0
    state = WORKING_SET.get((alice.root, "s"))
    assert state is not None
    assert set(state.histories[0].reuse.scores()) == {0.0}


def history(uses: int) -> list[dict[str, Any]]:
    made = [user("Who is it?"), *step("c", "find", "{}", "user_4711")]
    for number in range(uses):
        made += step(f"c{number}", "look", '{"at": "user_4711"}', "nothing")
    return made


def test_what_every_later_step_uses_is_stored_recalled_and_deleted(alice: User) -> None:
    for uses in range(USES + 1):
        alice.api("sync", session="slow", messages=history(uses))
    alice.api("sync", session="quick", messages=history(USES))
    slow, quick = (alice.api("explain", session=name)["results"] for name in ("slow", "quick"))
    assert slow == quick
    assert slow[0]["reuse"] == USES

    # Nor is it in the way of whoever recalls or deletes it.
    (found,) = alice.api("recall", session="slow", results=[2])["results"]
    assert (found["message"]["content"], found["arguments"]) == ("user_4711", "{}")
    for name in ("slow", "quick"):
        alice.api("delete_session", session=name)
    assert alice.graph().counts == {}
