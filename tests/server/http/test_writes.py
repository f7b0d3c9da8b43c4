"""A success is on disk, a failure writes nothing, and no user reaches another user's nodes."""

from pathlib import Path

import httpx
import pytest

from tests.server.servers import Server, forked_test_app


def append(client: httpx.Client, key: str, *texts: str, end: str = "") -> httpx.Response:
    return client.post("/walker/append", json={"key": key, "texts": texts, "end": end})


def stored_lines(client: httpx.Client, key: str) -> list[str]:
    reports = client.post("/walker/show", json={"key": key}).json()["reports"]
    lines = [line for page in reports for line in page["lines"]]
    return [line["text"] for line in sorted(lines, key=lambda line: line["number"])]


def stored_bytes(data: Path) -> int:
    return sum((data / name).stat().st_size for name in ("store.db", "store.db-wal"))


@pytest.mark.parametrize("end", ["crash", "raise"])
def test_failed_request_writes_nothing(client: httpx.Client, end: str) -> None:
    assert append(client, f"fails by {end}", "a", end=end).status_code >= 400
    assert stored_lines(client, f"fails by {end}") == []


def test_commit_now_writes_at_once(client: httpx.Client) -> None:
    assert append(client, "answer_before_commit", "a", end="commit and crash").status_code == 500
    assert stored_lines(client, "answer_before_commit") == ["a"]


@pytest.mark.slow
def test_deletion_removes_contents_from_disk(data: Path) -> None:
    with forked_test_app(data) as server, server.client() as client:
        append(client, "kept", "a")
        before = stored_bytes(data)
        append(client, "deleted", *(f"GONE_{number} " * 200 for number in range(300)))
        full = stored_bytes(data)
        assert client.post("/walker/forget", json={"key": "deleted"}).status_code == 200
        assert stored_bytes(data) - before < (full - before) / 5
        assert not [path for path in data.glob("store.db*") if b"GONE_" in path.read_bytes()]
        assert stored_lines(client, "kept") == ["a"]


def test_node_is_accessible_to_owner_only(server: Server, client: httpx.Client) -> None:
    (page,) = append(client, "mine", "a").json()["reports"]
    mine = {"count": 1, "key": "mine"}
    reports = client.post("/walker/peek", json={"id": page["id"]}).json()["reports"]
    assert reports == [True, [mine]]
    with server.client(server.add_user("mallory")) as other:
        reports = other.post("/walker/peek", json={"id": page["id"]}).json()["reports"]
        assert reports == [False, []]
        assert stored_lines(other, "mine") == []
