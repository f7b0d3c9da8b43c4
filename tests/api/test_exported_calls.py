"""What calls were shown and billed goes with an export, and counts where it is imported."""

from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.conftest import User
from tests.support.transcripts import agent_run, assistant, called, user

RUN = agent_run(12)
BILL = [100, 20, 30, 0, 5]


@pytest.fixture
def export(alice: User) -> Json:
    """Of a session whose calls were billed, before their answers and after, with a branch."""
    called(alice.api, "s", RUN, budget=700, model="gpt-5.1", client="c")
    answers = [at for at, message in enumerate(RUN) if message["role"] == "assistant"]
    for at in answers[:5]:
        alice.api("note_usage", session="s", used={"messages": at, "tokens": BILL})
    told: Json = alice.api("export_session", session="s")
    return told


def imported(who: User, data: Json) -> Json:
    who.api("import_session", data=data)
    told: Json = who.api("export_session", session="s")
    return told | {"created_at": data["created_at"]}


def test_a_round_trip_keeps_every_fact_and_every_sum(alice: User, bob: User, export: Json) -> None:
    assert len(export["branches"][0]["calls"]) == 12
    assert [call.get("billed") for call in export["branches"][0]["calls"]][:6] == [
        *[BILL] * 5,
        None,
    ]
    assert imported(bob, export) == export
    for walker in ("timeline", "misses", "glimpse", "savings"):
        assert bob.api(walker, session="s") == alice.api(walker, session="s")
    assert bob.api("explain", session="s", turn=9) == alice.api("explain", session="s", turn=9)
    rows = [who.api("total_savings")["rows"] for who in (alice, bob)]
    assert rows[0] == rows[1] and rows[0][0]["billed"] == 5 and rows[0][0]["drawn"] > 0


def test_branches_have_the_calls_of_their_own(alice: User, bob: User) -> None:
    called(alice.api, "s", RUN, budget=700)
    called(alice.api, "s", [*RUN[:8], user("Else?"), assistant("ORD-1001 then.")], budget=700)
    export = alice.api("export_session", session="s")
    assert [len(branch["calls"]) for branch in export["branches"]] == [12, 1]
    assert imported(bob, export) == export
    counted = [who.api("list_sessions")["sessions"][0]["counted"] for who in (alice, bob)]
    assert counted[0] == counted[1]


def test_an_export_of_before_still_imports(bob: User, export: Json) -> None:
    old = export | {"branches": [dict(branch) for branch in export["branches"]]}
    for branch in old["branches"]:
        del branch["calls"]
    bob.api("import_session", data=old)
    assert {turn["noted"] for turn in bob.api("timeline", session="s")["turns"]} == {False}
    assert bob.api("total_savings")["counted"] == 0


WRONG: dict[str, Any] = {
    "of another kind": "calls",
    "no object": [1],
    "no position": [{}],
    "a position of text": [{"position": "2"}],
    "a position of a result": [{"position": 3}],
    "a position beyond": [{"position": 999}],
}
WRONG_FIELDS: dict[str, Json] = {
    "something unknown": {"speed": 1},
    "a bad budget": {"budget": 1},
    "no such policy": {"policy": "magic"},
    "a time of text": {"at": "now"},
    "four sizes": {"tokens": [1, 2, 3, 4]},
    "a negative size": {"tokens": [1, 2, 3, 4, -5]},
    "half a run": {"shown": [1]},
    "runs beyond the results": {"shown": [0, 400]},
    "more results than there were": {"results": 400},
    "a short bill": {"billed": [1, 2]},
    "a bill beyond numbers": {"billed": [1, 2, 3, 4, 2**50]},
    "characters without a length": {"parts": [[1, 1, 5]]},
    "sent by pigeon": {"sent": "pigeon"},
    "a model of another kind": {"model": 1},
    "a long client": {"client": "c" * 81},
}


def refuse(who: User, data: Json, calls: Any) -> None:
    (branch,) = data["branches"]
    bad = data | {"branches": [branch | {"calls": calls}]}
    who.api.refused("import_session", 422, "invalid_request", data=bad)
    assert not who.graph().nodes


def test_what_no_export_says_is_refused(bob: User, export: Json) -> None:
    for calls in WRONG.values():
        refuse(bob, export, calls)
    first = export["branches"][0]["calls"][0]
    for fields in WRONG_FIELDS.values():
        refuse(bob, export, [first | fields])
    refuse(bob, export, [first, first])
