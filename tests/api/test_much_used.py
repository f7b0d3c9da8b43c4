"""A result that every later step draws on: joined each time without being loaded."""

from typing import Any

from tests.api.conftest import User
from tests.support.transcripts import step, user

USES = 12


def history(uses: int) -> list[dict[str, Any]]:
    made = [user("Who is it?"), *step("c", "find", "{}", "user_4711")]
    for number in range(uses):
        made += step(f"c{number}", "look", '{"at": "user_4711"}', "nothing")
    return made


def test_it_is_stored_as_if_recorded_at_once(alice: User) -> None:
    for uses in range(USES + 1):
        alice.api("sync", session="slow", messages=history(uses))
    alice.api("sync", session="quick", messages=history(USES))
    slow, quick = (alice.api("explain", session=name)["results"] for name in ("slow", "quick"))
    assert slow == quick
    assert slow[0]["reuse"] == USES


def test_it_can_be_recalled_and_deleted(alice: User) -> None:
    for uses in range(USES + 1):
        alice.api("sync", session="s", messages=history(uses))
    (found,) = alice.api("recall", session="s", results=[2])["results"]
    assert (found["message"]["content"], found["arguments"]) == ("user_4711", "{}")
    alice.api("delete_session", session="s")
    assert alice.graph().counts == {}
