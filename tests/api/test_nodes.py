"""`get_node` and `/graph/data` read a user's graph, one node and one page of edges at a time."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.support.transcripts import agent_run, render_calls


@pytest.fixture
def api(alice: User) -> Api:
    render_calls(alice.api, "s", agent_run(12), budget=700)
    return alice.api


def edges(api: Api, id: str) -> Iterator[Any]:
    for page in api.pages("get_node", id=id):
        yield from page["edges"]


def first_call(api: Api) -> Any:
    """Return the first tool call, with edges to its result and to the next event."""
    session = api("get_node", session="s")
    node = api(
        "get_node", id=next(edge["id"] for edge in session["edges"] if edge["kind"] == "HasBranch")
    )
    while node["kind"] != "ToolCall":
        ahead = [edge for edge in node["edges"] if edge["kind"] in ("HasFirstEvent", "Next")]
        node = api("get_node", id=next(edge["id"] for edge in ahead[::-1] if edge["outgoing"]))
    return node


def test_following_edges_reaches_the_whole_session(api: Api) -> None:
    kinds, visited, open_ids = Counter[str](), set(), [api("get_node", session="s")["id"]]
    while open_ids:
        node = api("get_node", id=open_ids.pop())
        if node["id"] in visited or node["kind"] == "Root":
            continue
        visited.add(node["id"])
        kinds[node["kind"]] += 1
        edge_counts = Counter((edge["kind"], edge["outgoing"]) for edge in edges(api, node["id"]))
        assert edge_counts == {
            (degree["kind"], degree["outgoing"]): degree["count"] for degree in node["degrees"]
        }
        open_ids += [edge["id"] for edge in node["edges"]]
    (branch,) = api("inspect_session", session="s")["branches"]
    assert kinds["ToolResult"] == kinds["ToolCall"] == branch["results"] == 12
    assert kinds["Message"] == branch["messages"] - branch["results"]
    assert kinds["Session"] == kinds["Branch"] == 1


def test_node_has_its_fields_with_long_ones_shortened(api: Api) -> None:
    root = api("get_node")
    assert root["kind"] == "Root" and root["id"] == root["owner"]
    assert {edge["kind"] for edge in root["edges"]} == {"Owns"}
    session = api("get_node", session="s")
    assert {field["name"]: field["text"] for field in session["fields"]}["key"] == "s"
    call_edges = edges(api, first_call(api)["id"])
    result = next(edge["id"] for edge in call_edges if edge["kind"] == "HasResult")
    fields = {field["name"]: field for field in api("get_node", id=result)["fields"]}
    assert (fields["embedding"]["kind"], fields["embedding"]["text"]) == ("bytes", "")


def test_another_users_node_is_404(api: Api, bob: User) -> None:
    system = "00000000-0000-0000-0000-000000000000"
    for id in (api("get_node", session="s")["id"], api("get_node")["id"], system):
        bob.api.refused("get_node", 404, "not_found", id=id)
    for wrong in ({"id": "x"}, {"start": -1}):
        api.refused("get_node", 422, "invalid_request", **wrong)


def test_graph_data_has_format_of_jac_viewer(service: Service, api: Api, bob: User) -> None:
    """`/graph/data` returns the caller's root or a requested node, in pages."""
    reply = service.http.get("/graph")
    assert reply.status_code == 308 and reply.headers["location"] == "/console/#/store"

    def ask(token: str = api.token, **params: Any) -> Any:
        headers = {"authorization": f"Bearer {token}"}
        return service.http.get("/graph/data", params=params, headers=headers)

    root, sessions = ask().json(), api("get_node")["edges"]
    assert {node["id"]: node["label"] for node in root["nodes"][1:]} == {
        edge["id"]: edge["label"] for edge in sessions
    }
    assert all(edge["from"] == root["nodes"][0]["id"] for edge in root["edges"])
    wide = first_call(api)
    page = ask(node=wide["id"]).json()
    assert len(page["edges"]) == len(wide["edges"]) and page["next"] == wide["next"]
    assert {edge["label"] for edge in page["edges"]} == {edge["kind"] for edge in wide["edges"]}
    named_node = ask(node="session:s").json()["nodes"][0]
    assert named_node["id"] == api("get_node", session="s")["id"]
    assert ask(node="session:nothing").status_code == 404
    assert ask(bob.api.token, node=wide["id"]).is_error
    assert ask("x").status_code == 401
    assert ask(start="x").status_code == 422
