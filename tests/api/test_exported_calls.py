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
    billed = [call.get("billed") for call in export["branches"][0]["calls"]]
    assert billed[:6] == [*[BILL] * 5, None]
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


WRONG: list[Any] = ["calls", [1], *([{"position": at}] for at in ("2", 3, 999)), [{}]]
WRONG_FIELDS: list[Json] = [
    *({"speed": 1}, {"budget": 1}, {"policy": "magic"}, {"at": "now"}),
    *({"tokens": [1, 2, 3, 4]}, {"tokens": [1, 2, 3, 4, -5]}),
    *({"shown": [1]}, {"shown": [0, 400]}, {"results": 400}),
    *({"billed": [1, 2]}, {"billed": [1, 2, 3, 4, 2**50]}, {"parts": [[1, 1, 5]]}),
    *({"sent": "pigeon"}, {"model": 1}, {"client": "c" * 81}),
]


def test_what_no_export_says_is_refused(bob: User, export: Json) -> None:
    (branch,) = export["branches"]
    first = branch["calls"][0]
    for calls in [*WRONG, *([first | fields] for fields in WRONG_FIELDS), [first, first]]:
        bad = export | {"branches": [branch | {"calls": calls}]}
        bob.api.refused("import_session", 422, "invalid_request", data=bad)
    assert not bob.graph().nodes
