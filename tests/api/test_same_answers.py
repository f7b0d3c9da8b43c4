"""Replies do not depend on what a process has cached."""

from collections.abc import Callable
from typing import Any

import pytest
from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.client import Api
from tests.api.conftest import Service
from tests.server.servers import another_server
from tests.support.transcripts import agent_run, assistant, user

RUN = agent_run(14, lines=5)
REWRITTEN = [*RUN[:12], user("Leave ORD-1005 alone."), *RUN[14:22]]
TIMES = ("created_at", "updated_at", "timestamps", "at")
PROCESS_FIELDS = ("embedded",)
"""Reply fields that depend on the embeddings cached in the process."""

ApiAt = Callable[[int], Api]
Day = tuple[str, list[Any]]
"""A policy and the expected replies of `run_day` under it."""


def run_day(policy: str, api_at: ApiAt) -> list[Any]:
    """Return every reply of a session that grows, branches, goes back and is read."""
    replies: list[Any] = []

    def ask(walker: str, **fields: Any) -> Any:
        if walker == "render":
            fields["policy"] = policy
        replies.append(api_at(len(replies))(walker, session="day", **fields))
        return replies[-1]

    offset, prefix = 0, ""
    for end in range(2, len(RUN), 4):
        shape = {"budget": 700 + 300 * (end % 3), "output": "plan" if end % 8 else "messages"}
        reply = ask("render", messages=RUN[offset:end], offset=offset, prefix=prefix, **shape)
        offset, prefix = reply["offset"], reply["digest"]
    ask("render", messages=REWRITTEN, budget=900)
    ask("render", messages=RUN, budget=900)
    ask("render", messages=RUN[:15], budget=500)
    ask("sync", messages=[*REWRITTEN, assistant("Done.")], settings={"budget": 800})
    ask("explain", turn=6, budget=600)
    ask("explain", branch=0, policy=policy)
    ask("explain", policy="prune")
    ask("recall", results=[3, 7], branch=0)
    ask("recall", query="which hub did ORD-1003 move through?")
    ask("render", messages=[*RUN, user("And now?")])
    ask("inspect_session")
    ask("inspect_session", branch=1)
    ask("export_session")
    return [without_times(reply) for reply in replies]


def without_times(value: Any) -> Any:
    """Return the value without times and fields that depend on the process."""
    if isinstance(value, dict):
        left_out = TIMES + PROCESS_FIELDS
        return {name: without_times(item) for name, item in value.items() if name not in left_out}
    return [without_times(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module", params=["contextrender", "contextrender_cache_aware"])
def day(service: Service, request: pytest.FixtureRequest) -> Day:
    api = service.new_user().api
    return request.param, run_day(request.param, lambda _: api)


def test_replies_are_equal_with_cache_cleared_before_every_call(service: Service, day: Day) -> None:
    api = service.new_user().api

    def forgetful(_: int) -> Api:
        WORKING_SET.clear()
        return api

    policy, replies = day
    assert run_day(policy, forgetful) == replies


@pytest.mark.slow
def test_replies_are_equal_with_two_alternating_processes(service: Service, day: Day) -> None:
    first_api = service.new_user().api
    policy, replies = day
    with another_server(service.data) as server, server.api(first_api.token) as second_api:
        assert run_day(policy, lambda call: (first_api, second_api)[call % 2]) == replies
        other = service.new_user()
        with server.api(other.api.token) as remote_api:
            # The first process gets one of 13 calls and reads the other ones from the store.
            apis = [other.api, *[remote_api] * 12]
            assert run_day(policy, lambda call: apis[call % 13]) == replies


def test_session_recreated_by_another_process_replaces_cache(service: Service) -> None:
    here = service.new_user().api
    other = [user("Something else."), *RUN[2:]]
    with another_server(service.data) as server, server.api(here.token) as remote:
        reply = here("render", session="s", messages=RUN, budget=700)
        remote("delete_session", session="s")
        here.refused("explain", 404, "not_found", session="s")
        new = remote("render", session="s", messages=other, budget=700)
        assert new["offset"] == reply["offset"] - 1
        assert here("render", session="s", messages=other, budget=700) == new
        (branch,) = here("export_session", session="s")["branches"]
        assert branch["messages"] == other
        fields = {"budget": 600, "policy": "prune"}
        remote("sync", session="s", messages=[*other, assistant("Done.")], settings=fields)
        assert here("explain", session="s") == remote("explain", session="s")
        assert here("explain", session="s")["policy"] == "prune"
