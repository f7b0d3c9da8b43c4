"""Authentication with tokens and passwords."""

import stat
import time

import httpx
import jwt
from contextrender_bridge.client.credentials import load_credentials

from tests.server.servers import DATABASE, Server


def noop(server: Server, authorization: str | None) -> int:
    headers = {"authorization": authorization} if authorization is not None else {}
    return httpx.post(server.url + "/walker/noop", headers=headers).status_code


def forge_header(secret: str, user: str, seconds: int = 60) -> str:
    return "Bearer " + jwt.encode({"sub": user, "exp": int(time.time()) + seconds}, secret)


def test_only_valid_tokens_are_accepted(server: Server) -> None:
    token = load_credentials(server.data).token
    user = jwt.decode(token, options={"verify_signature": False})["sub"]
    secret = (server.data / "jwt_secret").read_text()
    assert noop(server, f"Bearer {token}") == 200
    assert noop(server, f"bearer {token}") == 200
    for header in (None, "", "Bearer", "Bearer x", f"Basic {token}", token, f"Bearer {token}x"):
        assert noop(server, header) == 401
    assert noop(server, forge_header(secret, user)) == 200
    assert noop(server, forge_header(secret, user, seconds=-60)) == 401
    assert noop(server, forge_header(secret, "nobody")) == 401
    assert noop(server, forge_header("supersecretkey_for_testing_only!", user)) == 401
    assert noop(server, "Bearer " + jwt.encode({"sub": user}, "", algorithm="none")) == 401


def test_data_files_are_readable_by_owner_only(server: Server) -> None:
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.data.iterdir()}
    store_files = {"store.db"} if DATABASE not in server.environment else set()
    assert {"credentials.json", "jwt_secret"} | store_files <= set(files)
    assert set(files.values()) == {0o600}


def test_added_user_can_log_in(server: Server) -> None:
    token = server.add_user("alice", password="correct horse")
    assert noop(server, f"Bearer {token}") == 200
    form = {"username": "alice", "password": "correct horse"}
    reply = httpx.post(server.url + "/user/login", json=form)
    login_token = reply.json()["token"]
    assert noop(server, f"Bearer {login_token}") == 200
    expiry = jwt.decode(login_token, options={"verify_signature": False})["exp"]
    assert 86_000 < expiry - time.time() <= 86_400
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
