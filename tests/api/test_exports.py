"""Every session comes back from its export: what its calls showed, missed and cost."""

import json
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call import missing_results
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.support.strategies import transcripts
from tests.support.transcripts import agent_run, assistant, called, user

POLICIES = ("contextrender", "contextrender_cache_aware", "contextrender_excerpts", "full")
USAGE = {"uncached": 9, "cache_read": 8, "cache_write": 7, "output": 5}
DELIVERIES = ("rendered", "rendered", "full", "holdout")


def moved(alice: User, bob: User, session: str) -> tuple[Json, Json]:
    """A session's export, and that of the session which it makes for another user."""
    data = alice.api("export_session", session=session)
    bob.api("import_session", data=json.loads(json.dumps(data)))
    return data, bob.api("export_session", session=session)


def views_of(api: Api, session: str, branches: int) -> list[Any]:
    """What the past of a session looks like, each call of it."""
    found: list[Any] = []
    for branch in range(branches):
        at: Json = {"session": session, "branch": branch}
        turns = api.rows("timeline", "turns", **at, limit=1000)
        found += turns
        found += api.rows("misses", "misses", **at)
        found.append(api.complete("savings", **at))
        for turn in turns:
            found += [api(name, **at, turn=turn["turn"]) for name in ("explain", "get_call")]
    return found


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[str, Json]]:
    """What a client may send of one session: calls, retries, bills, and pasts it rewrote."""
    line = draw(transcripts(most_turns=5))
    found: list[tuple[str, Json]] = []
    for _ in range(draw(st.integers(1, 3))):
        if not line:
            line = [user("Go on.")]
        policy = draw(st.sampled_from(POLICIES))
        stops = sorted(draw(st.lists(st.integers(1, len(line)), min_size=1, max_size=8)))
        for stop in [*stops, *draw(st.lists(st.integers(1, len(line)), max_size=2))]:
            fields: Json = {"messages": line[:stop]}
            if draw(st.integers(0, 5)):
                fields["budget"] = draw(st.sampled_from([100, 300, 300, 9_000]))
                fields["agent_defaults"] = draw(st.booleans())
                fields["delivery"] = draw(st.sampled_from(DELIVERIES))
                found.append(("render", {"policy": policy, "model": "gpt-5.1", **fields}))
            else:
                found.append(("sync", fields))
            if not draw(st.integers(0, 3)):
                usage: Json = {"messages": draw(st.integers(1, stop)), **USAGE}
                usage["delivery"] = draw(st.sampled_from(["rendered", "full"]))
                found.append(("record_usage", {"usage": usage}))
        kept = draw(st.integers(0, len(line)))
        line = [*line[:kept], *draw(transcripts(most_turns=2))]
    return found


@given(requests())
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_export_imports_and_exports_again_as_the_same_bytes(
    service: Service, sent: list[tuple[str, Json]]
) -> None:
    alice, bob, carol = (service.new_user() for _ in range(3))
    for name, fields in sent:
        alice.api.post(name, session="s", **fields)
    (data, copy) = moved(alice, bob, "s")
    assert json.dumps(copy) == json.dumps(data)
    assert json.dumps(moved(bob, carol, "s")[1]) == json.dumps(data)
    count = len(data["branches"])
    assert views_of(bob.api, "s", count) == views_of(alice.api, "s", count)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_imported_session_answers_as_the_original_and_computes_no_miss(
    alice: User, bob: User, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = [*agent_run(24), assistant("That is all.")]
    other = [*run[:30], user("Who else?"), *run[20:40], assistant("clerk_2@example.com.")]
    for line in (run, other):
        called(alice.api, "s", line, budget=900, policy=policy, model="gpt-5.1")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an import computes nothing")

    monkeypatch.setattr(missing_results, "without_visible", refuse)
    data, copy = moved(alice, bob, "s")
    assert copy == data
    assert views_of(bob.api, "s", 2) == views_of(alice.api, "s", 2)
    rows = [who.api("list_sessions")["sessions"] for who in (alice, bob)]
    assert rows[0][0]["totals"] == rows[1][0]["totals"]
    found = alice.api("misses", session="s", branch=0, limit=1000)["misses"]
    assert bool(found) == (policy != "full")


def test_a_call_after_an_assistant_message_comes_back(alice: User, bob: User) -> None:
    """A client may ask for a message after the model's own: to go on with it."""
    run = [*agent_run(3), assistant("So the order is")]
    alice.api("render", session="s", messages=run, budget=900)
    data, copy = moved(alice, bob, "s")
    assert [call["position"] for call in data["branches"][0]["calls"]] == [len(run)]
    assert copy == data
