"""`newest_calls` reports the newest calls as `timeline` does, from the end of the session alone."""

from collections.abc import Callable
from itertools import product
from uuid import UUID

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.conftest import User
from tests.api.test_damaged import damage
from tests.support.transcripts import agent_run, assistant, call, render_calls, result, user

RUN = agent_run(40, lines=5)
LIVE: Json = {"policy": "contextrender_cache_aware", "budget": "auto", "agent_defaults": True}
SMALL: Json = {"policy": "contextrender_cache_aware", "budget": 900}
MANY: list[Json] = [
    *RUN[:20],
    assistant(
        "All of these:", *(call("m", "get_order", f'{{"n": {number}}}') for number in range(70))
    ),
    *(result("m", f"order ORD-77{number:02}") for number in range(70)),
    assistant("", call("last", "find_order")),
    result("last", "order ORD-9999 " * 500),
]


def record(user_of_session: User, run: list[Json], **settings: object) -> None:
    render_calls(user_of_session.api, "s", run, **settings)


def fork(alice: User) -> None:
    record(alice, RUN, **SMALL)
    alice.api("render", session="s", messages=[*RUN[:60], user("Else.")], **SMALL)
    alice.api("render", session="s", messages=[*RUN[:60], user("Else."), assistant("Yes.")])
    alice.api("render", session="s", messages=[*RUN[:60], user("Else."), user("Or?")], **SMALL)


SESSIONS: dict[str, Callable[[User], None]] = {
    "small budget": lambda alice: record(alice, RUN, **SMALL),
    "live default": lambda alice: record(alice, RUN, **LIVE),
    "paper's default": lambda alice: record(alice, RUN, budget=900),
    "an answer to come": lambda alice: record(alice, [*RUN, user("And?"), user("So?")], **SMALL),
    "many calls with one id": lambda alice: record(alice, MANY, budget=900),
    "held out": lambda alice: record(alice, RUN[:30], delivery="holdout", **SMALL),
    "branches": fork,
    "no call": lambda alice: alice.api("sync", session="s", messages=RUN[:1]),
    "one call": lambda alice: record(alice, RUN[:3]),
}


@pytest.mark.parametrize("kind", SESSIONS)
def test_newest_calls_are_those_of_the_timeline(alice: User, kind: str) -> None:
    SESSIONS[kind](alice)
    branches = alice.api("inspect_session", session="s")["session"]["branches"]
    for branch, limit in product(range(branches), (1, 7, 60)):
        turns = alice.api.rows("timeline", "turns", session="s", branch=branch, limit=1000)
        expected = alice.api("timeline", session="s", branch=branch)
        newest = alice.api("newest_calls", session="s", branch=branch, limit=limit)
        recorded = [turn for turn in turns[-limit:] if turn["recorded"]]
        assert newest["turns"] == [{**turn, "old_versions": []} for turn in recorded]
        for name in ("turn_count", "awaits_answer", "budget", "policy", "policies", "branch"):
            assert newest[name] == expected[name]
        results, columns = newest["results"], expected["results"]
        for name in ("positions", "turns", "tokens"):
            assert results[name] == columns[name][results["offset"] :]
        assert tool_names(results) == tool_names(columns)[results["offset"] :]


def tool_names(columns: Json) -> list[str]:
    return [columns["tools"][number] for number in columns["names"]]


def test_calls_that_were_only_recorded_are_left_out(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    newest = alice.api("newest_calls", session="s")
    assert (newest["turns"], newest["turn_count"], newest["next"]) == ([], 41, 1)


def test_events_before_the_newest_calls_are_not_read(alice: User) -> None:
    record(alice, RUN, **SMALL)
    before = alice.api("newest_calls", session="s", limit=5)
    events = [*alice.graph().of("Message"), *alice.graph().of("ToolResult")]
    (old,) = [event for event in events if event.fields["position"] == 3]
    WORKING_SET.clear()
    row = ("nodes", (UUID(old.id),))
    damage(alice, row, "cut")
    alice.api.refused("timeline", 422, "corrupted", session="s")
    assert alice.api("newest_calls", session="s", limit=5) == before
    # Without the row, the numbers of the later results would be wrong.
    damage(alice, row, "deleted")
    alice.api.refused("newest_calls", 422, "corrupted", session="s")
