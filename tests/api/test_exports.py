"""An imported session equals the exported one in prompts, misses and costs."""

import json
import os
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call import missing_results
from contextrender_bridge.engine.text.transcript import MAX_LEVELS
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.support.command import contextrender
from tests.support.strategies import transcripts
from tests.support.transcripts import agent_run, assistant, render_calls, user

POLICIES = ("contextrender", "contextrender_cache_aware", "contextrender_excerpts", "full")
USAGE = {"uncached": 9, "cache_read": 8, "cache_write": 7, "output": 5}
DELIVERIES = ("rendered", "rendered", "full", "holdout")


def export_and_import(alice: User, bob: User, session: str) -> tuple[Json, Json]:
    """Import a session's export for another user; return both exports."""
    data = alice.api("export_session", session=session)
    bob.api("import_session", data=json.loads(json.dumps(data)))
    return data, bob.api("export_session", session=session)


def views_of(api: Api, session: str, branches: int) -> list[Any]:
    """Return every view of a session and of each of its calls."""
    views: list[Any] = []
    for branch in range(branches):
        branch_fields: Json = {"session": session, "branch": branch}
        turns = api.rows("timeline", "turns", **branch_fields, limit=1000)
        views += turns
        views += api.rows("misses", "misses", **branch_fields)
        views.append(api.complete("savings", **branch_fields))
        for turn in turns:
            views += [
                api(name, **branch_fields, turn=turn["turn"]) for name in ("explain", "get_call")
            ]
    return views


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[str, Json]]:
    """Draw requests of one session: calls, retries, usage reports and rewritten histories."""
    line = draw(transcripts(most_turns=5))
    sent_requests: list[tuple[str, Json]] = []
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
                sent_requests.append(("render", {"policy": policy, "model": "gpt-5.1", **fields}))
            else:
                sent_requests.append(("sync", fields))
            if not draw(st.integers(0, 5)):
                sent_requests.append(("compact", {"messages": line[:stop], "tokens": 2_000}))
            if not draw(st.integers(0, 3)):
                usage: Json = {"messages": draw(st.integers(1, stop)), **USAGE}
                usage["delivery"] = draw(st.sampled_from(["rendered", "full"]))
                sent_requests.append(("record_usage", {"usage": usage}))
        line = [*line[: draw(st.integers(0, len(line)))], *draw(transcripts(most_turns=2))]
    return sent_requests


@given(requests())
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_import_exports_the_same_bytes(
    service: Service, sent_requests: list[tuple[str, Json]]
) -> None:
    alice, bob, carol = (service.new_user() for _ in range(3))
    for name, fields in sent_requests:
        alice.api.post(name, session="s", **fields)
    (data, copy) = export_and_import(alice, bob, "s")
    assert json.dumps(copy) == json.dumps(data)
    assert json.dumps(export_and_import(bob, carol, "s")[1]) == json.dumps(data)
    count = len(data["branches"])
    assert views_of(bob.api, "s", count) == views_of(alice.api, "s", count)


@pytest.mark.parametrize("policy", POLICIES)
def test_imported_session_has_equal_views_without_computing_misses(
    alice: User, bob: User, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = [*agent_run(16), assistant("That is all.")]
    other = [*run[:20], user("Who else?"), *run[14:26], assistant("clerk_2@example.com.")]
    for line in (run, other):
        render_calls(alice.api, "s", line, budget=900, policy=policy, model="gpt-5.1")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an import computes nothing")

    monkeypatch.setattr(missing_results, "without_visible", refuse)
    data, copy = export_and_import(alice, bob, "s")
    assert copy == data
    new_calls = [
        [call for call in branch["calls"] if not call.get("again")] for branch in data["branches"]
    ]
    assert [*map(len, new_calls)] == [
        sum(message["role"] == "assistant" for message in branch["messages"])
        for branch in data["branches"]
    ]
    assert views_of(bob.api, "s", 2) == views_of(alice.api, "s", 2)
    totals = [who.api("list_sessions")["sessions"][0]["totals"] for who in (alice, bob)]
    rows = [who.api("total_savings")["rows"] for who in (alice, bob)]
    assert totals[0] == totals[1] and rows[0] == rows[1] and rows[0][0]["results_used"] > 0
    misses = alice.api("misses", session="s", branch=0, limit=1000)["misses"]
    assert bool(misses) == (policy != "full")


def test_call_after_assistant_message_survives_export(alice: User, bob: User) -> None:
    """A client may ask the model to continue its own message."""
    run = [*agent_run(3), assistant("So the order is")]
    alice.api("render", session="s", messages=run, budget=900)
    data, copy = export_and_import(alice, bob, "s")
    assert [call["position"] for call in data["branches"][0]["calls"]] == [len(run)]
    assert copy == data


def deep_message(levels: int, kinds: list[bool]) -> Json:
    """Return a message with this many nested levels; a true entry of `kinds` makes an object."""
    value: Any = "bottom"
    for level in range(levels - 1):
        value = {"in": value} if kinds[level % len(kinds)] else [value]
    return user("a") | {"deep": value}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    levels=st.integers(MAX_LEVELS - 5, MAX_LEVELS + 15),
    kinds=st.lists(st.booleans(), min_size=1, max_size=5),
)
@example(levels=MAX_LEVELS, kinds=[True])
@example(levels=MAX_LEVELS + 1, kinds=[False])
def test_recorded_nesting_is_imported_by_endpoint_and_command(
    service: Service, tmp_path_factory: pytest.TempPathFactory, levels: int, kinds: list[bool]
) -> None:
    messages = [deep_message(levels, kinds)]
    alice, bob = service.new_user(), service.new_user()
    reply = alice.api.post("sync", session="s", messages=messages)
    assert (reply.status_code == 200) == (levels <= MAX_LEVELS), reply.text
    if reply.status_code != 200:
        assert reply.json()["error"]["code"] in ("invalid_request", "invalid_json")
        return
    export = alice.api("export_session", session="s")
    bob.api("import_session", data=export)
    file = tmp_path_factory.mktemp("deep") / "export.json"
    url = str(service.http.base_url)
    for words, account in (
        (("export", "s", file), alice),
        (("import", file, "--as", "again"), bob),
    ):
        variables = {"CONTEXTRENDER_URL": url, "CONTEXTRENDER_TOKEN": account.api.token}
        process = contextrender(*words, environment={**os.environ, **variables})
        assert process.returncode == 0, process.stderr
    for session in ("s", "again"):
        assert bob.api("export_session", session=session) == {**export, "session": session}
