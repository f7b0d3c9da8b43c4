"""No user can read or change another user's session."""

import pytest

from tests.api.client import Api, error_of
from tests.api.conftest import Service, User, endpoints, example, session_walkers
from tests.support.transcripts import agent_run, assistant, user

RUN = agent_run(6, lines=5)


@pytest.fixture
def owner(alice: User) -> User:
    alice.api("render", session="s", messages=RUN, budget=600)
    return alice


def test_another_users_session_is_404(service: Service, owner: User, bob: User) -> None:
    walkers = session_walkers(service)
    assert len(walkers) >= 20
    before = owner.graph()
    for walker in walkers:
        error = bob.api.refused(walker, 404, "not_found", **example(walker, "s"))
        missing_error = bob.api.refused(walker, 404, "not_found", **example(walker, "nothing"))
        assert missing_error == error | {"message": error["message"].replace("'s'", "'nothing'")}
    assert owner.graph() == before
    assert not bob.graph().nodes
    for walker in [name for name in walkers if name != "delete_session"]:
        assert owner.api.post(walker, **example(walker, "s")).status_code == 200


def test_same_name_is_separate_session_per_user(owner: User, bob: User) -> None:
    before = owner.graph()
    mine = [user("Mine."), assistant("Yes.")]
    digest = owner.api("sync", session="s", messages=RUN)["digest"]
    piece = {"session": "s", "messages": mine, "offset": len(RUN), "prefix": digest}
    for walker in ("sync", "render"):
        bob.api.refused(walker, 409, "history_diverged", **piece)
    assert bob.api("sync", session="s", messages=mine)["recorded"] == 2
    assert bob.api("render", session="s", messages=RUN)["branch"] == 1
    assert bob.api("export_session", session="s")["branches"][0]["messages"] == mine
    assert bob.api("import_session", session="t", data=owner.api("export_session", session="s"))
    bob.api("delete_session", session="s")
    assert owner.graph() == before
    assert [row["session"] for row in owner.api("list_sessions")["sessions"]] == ["s"]
    assert [row["session"] for row in bob.api("list_sessions")["sessions"]] == ["t"]


def test_list_has_only_own_sessions(owner: User, bob: User) -> None:
    for number in range(3):
        owner.api("sync", session=f"own {number}", messages=RUN[:2])
    cursor = owner.api("list_sessions", limit=1)["next"]
    for fields in ({}, {"cursor": cursor}, {"cursor": f"9e99/{owner.root}"}):
        assert bob.api("list_sessions", **fields) == {"sessions": [], "next": None}


def test_node_ids_open_nothing(owner: User, bob: User) -> None:
    before = owner.graph()
    for identity in [owner.root, *{node.kind: id for id, node in before.nodes.items()}.values()]:
        for api in (owner.api, bob.api):
            api.refused("export_session", 404, "not_found", session=identity)
            api.refused("delete_session", 404, "not_found", session=identity)
        error_of(bob.api.post(f"inspect_session/{identity}", session="s"), 404, "not_found")
        for name in ("root", "here", "nd", "_jac_spawn_node"):
            fields = {"session": "s", name: identity}
            bob.api.refused("inspect_session", 422, "invalid_request", **fields)
    assert owner.graph() == before


def test_every_endpoint_refuses_invalid_token(service: Service, owner: User) -> None:
    stranger = Api(service.http, "e30.e30.")
    for walker in endpoints(service):
        error_of(stranger.post(walker, **example(walker, "s")), 401, "unauthorized")
    assert service.http.post("/walker/list_sessions").status_code == 401
