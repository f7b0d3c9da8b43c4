"""Who gets in."""

import json
import stat
import time
from pathlib import Path

import httpx
import jwt
import pytest
from contextrender_bridge.base.errors import NoCredentials
from contextrender_bridge.client.credentials import Credentials, load_credentials

from tests.server.servers import DATABASE, Server


def noop(server: Server, authorization: str | None) -> int:
    headers = {"authorization": authorization} if authorization is not None else {}
    return httpx.post(server.url + "/walker/noop", headers=headers).status_code


def forged(secret: str, user: str, seconds: int = 60) -> str:
    return "Bearer " + jwt.encode({"sub": user, "exp": int(time.time()) + seconds}, secret)


def test_only_a_good_token_gets_in(server: Server) -> None:
    token = load_credentials(server.data).token
    user = jwt.decode(token, options={"verify_signature": False})["sub"]
    secret = (server.data / "jwt_secret").read_text()
    assert noop(server, f"Bearer {token}") == 200
    assert noop(server, f"bearer {token}") == 200
    for bad in (None, "", "Bearer", "Bearer x", f"Basic {token}", token, f"Bearer {token}x"):
        assert noop(server, bad) == 401
    assert noop(server, forged(secret, user)) == 200
    assert noop(server, forged(secret, user, seconds=-60)) == 401
    assert noop(server, forged(secret, "nobody")) == 401
    assert noop(server, forged("supersecretkey_for_testing_only!", user)) == 401
    assert noop(server, "Bearer " + jwt.encode({"sub": user}, "", algorithm="none")) == 401


def test_everything_kept_is_the_owners_alone(server: Server) -> None:
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.data.iterdir()}
    stored = {"store.db"} if DATABASE not in server.environment else set()
    assert {"credentials.json", "jwt_secret"} | stored <= set(files)
    assert set(files.values()) == {0o600}


def test_an_added_user_can_log_in(server: Server) -> None:
    token = server.add_user("alice", password="correct horse")
    assert noop(server, f"Bearer {token}") == 200
    form = {"username": "alice", "password": "correct horse"}
    reply = httpx.post(server.url + "/user/login", json=form)
    assert noop(server, f"Bearer {reply.json()['token']}") == 200
    for username, password in (
        ("alice", "wrong horse"),
        ("alice", "x" * 100),
        ("bob", "correct horse"),
        ("admin", "changeme"),
        ("local", ""),
        ("__guest__", "__no_password__"),
    ):
        form = {"username": username, "password": password}
        reply = httpx.post(server.url + "/user/login", json=form)
        assert reply.status_code == 401
        assert reply.json()["error"]["message"] == "The name or the password is wrong."


def test_credentials_come_from_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTEXTRENDER_DATA", str(tmp_path))
    with pytest.raises(NoCredentials, match="contextrender serve"):
        load_credentials()
    Credentials("http://127.0.0.1:8000", "t").save(tmp_path)
    assert json.loads((tmp_path / "credentials.json").read_text()) == {
        "url": "http://127.0.0.1:8000",
        "token": "t",
    }
    assert load_credentials() == Credentials("http://127.0.0.1:8000", "t")
    monkeypatch.setenv("CONTEXTRENDER_URL", "http://localhost:9000/")
    assert load_credentials() == Credentials("http://localhost:9000", "t")
    monkeypatch.setenv("CONTEXTRENDER_URL", "https://far.example")
    with pytest.raises(NoCredentials, match="CONTEXTRENDER_TOKEN"):
        load_credentials()
    monkeypatch.setenv("CONTEXTRENDER_TOKEN", "far")
    assert load_credentials() == Credentials("https://far.example", "far")
    assert "far" not in repr(Credentials("u", "far"))
