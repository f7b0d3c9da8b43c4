"""A share link opens one session's views until it expires or is revoked, and nothing else."""

from typing import Any
from urllib.parse import unquote

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Api, error_of
from tests.api.conftest import Service, User, endpoints, example
from tests.support.transcripts import agent_run, user

RUN = agent_run(6, lines=5)
NAME = "run 1/é"
OPEN = {
    *("diagnose", "compare_policies", "explain", "inspect_session"),
    *("misses", "newest_calls", "read_message", "recall", "reuse_graph", "savings", "search"),
    *("get_call", "timeline", "tools", "trace_value"),
}


@pytest.fixture
def owner(alice: User) -> User:
    alice.api("render", session=NAME, messages=RUN, budget=600)
    alice.api("sync", session="another", messages=RUN[:4])
    return alice


def secret(link: Json) -> str:
    path, _, place = link["path"].partition("&to=")
    assert unquote(unquote(place)) == f"/session/{link['session']}"
    assert path.startswith("/console/#view=")
    return str(path.removeprefix("/console/#view="))


def open_link(service: Service, link: Json) -> Api:
    return Api(service.http, secret(link))


@pytest.fixture
def visitor(service: Service, owner: User) -> Api:
    return open_link(service, owner.api("share_session", session=NAME))


def refused(visitor: Api, walker: str, **fields: Any) -> None:
    visitor.refused(walker, 403, "read_only_link", **fields)


def test_link_opens_every_view_of_its_session(visitor: Api, owner: User) -> None:
    for walker in OPEN:
        fields = example(walker, NAME)
        assert visitor(walker, **fields) == owner.api(walker, **fields)


def test_link_opens_no_other_endpoint(service: Service, visitor: Api, owner: User) -> None:
    before = owner.graph()
    other_walkers = set(endpoints(service)) - OPEN
    assert {
        "render",
        "import_session",
        "export_session",
        "revoke_links",
        "list_sessions",
    } < other_walkers
    for walker in other_walkers:
        refused(visitor, walker, **example(walker, NAME))
    assert owner.graph() == before


def test_link_opens_and_reveals_no_other_session(visitor: Api) -> None:
    for walker in OPEN:
        for session in ("another", "nothing"):
            refused(visitor, walker, **example(walker, session))
    refused(visitor, "search", query="ORD-1000")
    refused(visitor, "tools")


def test_link_never_writes(
    service: Service, visitor: Api, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writing walker is allowed on purpose; its changes are discarded."""
    before = owner.graph()
    monkeypatch.setattr(service.walkers["sync"], "is_shareable", True)
    visitor("sync", session=NAME, messages=[*RUN, user("More.")])
    assert owner.graph() == before


def test_link_opens_no_other_route(service: Service, visitor: Api) -> None:
    headers = {"authorization": f"Bearer {visitor.token}"}
    for path in ("/console/link", "/console/sign-in"):
        error_of(service.http.post(path, json={}, headers=headers), 401, "unauthorized")
    body = {"model": "gpt-5.1", "messages": [{"role": "user", "content": "Hello."}]}
    reply = service.http.post("/v1/chat/completions", json=body, headers=headers)
    assert reply.status_code in (401, 404)
    assert service.accounts.caller(visitor.token) is None


def test_revoked_link_is_closed_at_once_and_others_work(service: Service, owner: User) -> None:
    first, second = (owner.api("share_session", session=NAME, label=label) for label in "ab")
    assert owner.api("list_links", session=NAME)["links"] == sorted(
        [first, second], key=lambda link: (-link["created_at"], link["id"])
    )
    links = owner.api("revoke_links", session=NAME, id=first["id"])["links"]
    assert links == [second] == owner.api("list_links", session=NAME)["links"]
    open_link(service, first).refused("timeline", 401, "unauthorized", session=NAME)
    assert open_link(service, second)("timeline", session=NAME)
    owner.api.refused("revoke_links", 404, "not_found", session=NAME, id=first["id"])
    assert owner.api("revoke_links", session=NAME)["links"] == []
    open_link(service, second).refused("timeline", 401, "unauthorized", session=NAME)


def test_link_expires(service: Service, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    link = owner.api("share_session", session=NAME, days=0.5)
    assert link["expires_at"] - link["created_at"] == 43_200
    visitor = open_link(service, link)
    now = [link["expires_at"] - 1]
    monkeypatch.setattr("time.time", lambda: now[0])
    assert visitor("timeline", session=NAME)
    now[0] += 1
    visitor.refused("timeline", 401, "unauthorized", session=NAME)
    assert owner.api("list_links", session=NAME)["links"] == []


def test_link_ends_with_its_session(service: Service, owner: User, visitor: Api) -> None:
    owner.api("delete_session", session=NAME)
    assert not owner.graph().of("ShareLink")
    visitor.refused("timeline", 401, "unauthorized", session=NAME)
    owner.api("sync", session=NAME, messages=RUN[:2])
    visitor.refused("timeline", 401, "unauthorized", session=NAME)


def test_link_ends_when_owners_tokens_are_revoked(
    service: Service, owner: User, visitor: Api
) -> None:
    caller = service.accounts.caller(owner.api.token)
    assert caller is not None
    service.accounts.revoke(caller)
    visitor.refused("timeline", 401, "unauthorized", session=NAME)
    new_api = Api(service.http, service.accounts.token(caller.user))
    assert new_api("list_links", session=NAME)["links"] == []


def test_forged_link_opens_nothing(service: Service, owner: User) -> None:
    token = secret(owner.api("share_session", session=NAME))
    head, body, mark = token.split(".")
    other = secret(owner.api("share_session", session="another")).split(".")
    for changed in (f"{head}.{other[1]}.{mark}", f"{head}.{body}.{other[2]}", token[:-3]):
        Api(service.http, changed).refused("timeline", 401, "unauthorized", session=NAME)


def test_another_user_cannot_list_or_revoke_links(owner: User, bob: User) -> None:
    link = owner.api("share_session", session=NAME)
    bob.api("sync", session=NAME, messages=RUN[:2])
    assert bob.api("list_links", session=NAME)["links"] == []
    bob.api.refused("revoke_links", 404, "not_found", session=NAME, id=link["id"])
    assert owner.api("list_links", session=NAME)["links"] == [link]


def test_link_of_locked_out_user_is_closed(service: Service, owner: User, visitor: Api) -> None:
    caller = service.accounts.caller(owner.api.token)
    assert caller is not None
    service.accounts.lock_out(caller)
    visitor.refused("timeline", 401, "unauthorized", session=NAME)
