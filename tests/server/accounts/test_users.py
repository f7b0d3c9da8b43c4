"""`contextrender user` takes effect in a running server at once."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from contextrender_bridge.base.errors import Unauthorized
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import load_credentials
from jwt import api_jwt

from tests.server.accounts.test_accounts import noop
from tests.server.conftest import NewStore
from tests.server.http.test_replies import error
from tests.server.servers import DATABASE, Server, forked_server
from tests.support.local import local_service
from tests.support.waiting import wait_until

MESSAGES = [{"role": "user", "content": "find the SECRET_of_alice"}]


@pytest.fixture(scope="module")
def service(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("users") / "data"
    with forked_server(data, **new_store()) as service:
        yield service


def user(service: Server, *words: str, input: str = "", status: int = 0) -> str:
    """Run `contextrender user`; return its output, or its error if `status` is not 0."""
    process = service.command("user", *words, input=input)
    assert process.returncode == status, process.stderr
    return (process.stderr if status else process.stdout).strip()


def ask(service: Server, token: str, walker: str, **fields: Any) -> httpx.Response:
    with service.client(token) as client:
        return client.post(f"/walker/{walker}", json=fields)


def test_tokens_are_revoked_at_once(service: Server) -> None:
    first = user(service, "add", "carol", "--password-stdin", input="first password\n")
    second = user(service, "token", "carol", "--days", "2")
    assert [ask(service, token, "list_sessions").status_code for token in (first, second)] == [
        200
    ] * 2
    user(service, "token", "carol", "--revoke")
    assert [ask(service, token, "list_sessions").status_code for token in (first, second)] == [
        401
    ] * 2
    headers = {"x-contextrender-token": first}
    model_call = {"model": "m", "messages": MESSAGES}
    url = service.url + "/v1/chat/completions"
    assert httpx.post(url, json=model_call, headers=headers).status_code == 401
    third = user(service, "token", "carol")
    assert ask(service, third, "list_sessions").status_code == 200
    user(service, "password", "carol", input="other password\n")
    assert ask(service, third, "list_sessions").status_code == 401
    for password, status in (("first password", 401), ("other password", 200)):
        form = {"username": "carol", "password": password}
        assert httpx.post(service.url + "/user/login", json=form).status_code == status


def test_removing_user_deletes_sessions(service: Server) -> None:
    assert "required: --delete-sessions" in user(service, "remove", "alice", status=2)
    heir, token = user(service, "add", "bob"), user(service, "add", "alice")
    for user_token, name in ((heir, "kept"), (token, "one"), (token, "two")):
        assert ask(service, user_token, "sync", session=name, messages=MESSAGES).status_code == 200
    assert user(service, "remove", "alice", "--delete-sessions").endswith(": 2.")
    assert ask(service, token, "list_sessions").status_code == 401
    listed = ask(service, heir, "list_sessions").json()["reports"][0]["sessions"]
    assert [session["session"] for session in listed] == ["kept"]
    assert "alice" not in user(service, "list").split()
    assert "cannot be removed" in user(service, "remove", "local", "--delete-sessions", status=1)
    assert "no user" in user(service, "remove", "nobody", "--delete-sessions", status=1)


def test_local_client_reads_renewed_token(service: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTRENDER_DATA", str(service.data))
    with ContextRender(service.url) as client:
        assert client.list_sessions()
        old = load_credentials(service.data).token
        user(service, "token", "local", "--revoke")
        assert ask(service, old, "list_sessions").status_code == 401
        wait_until(lambda: load_credentials(service.data).token != old)  # the server renews it
        assert client.list_sessions()
    with ContextRender(service.url, old) as client, pytest.raises(Unauthorized):
        client.list_sessions()


def test_local_token_is_renewed_after_half_its_lifetime(
    tmp_path: Path, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that is younger stays as it is."""
    monkeypatch.setenv(DATABASE, new_store().get(DATABASE, ""))
    with local_service(tmp_path) as service:
        accounts, token = service.accounts, service.token
        assert accounts.local_token(token) == token
        claims = jwt.decode(token, options={"verify_signature": False})
        secret = (tmp_path / "jwt_secret").read_text()
        old = jwt.encode({**claims, "iat": claims["iat"] - 31 * 86400}, secret)
        assert accounts.caller(old) is not None
        assert accounts.local_token(old) != old
        other = accounts.token(accounts.add("somebody"))
        assert accounts.local_token(other) != other


def test_local_token_is_renewed_when_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_service(tmp_path) as service:
        accounts, old = service.accounts, service.token
        now = time.time()
        with monkeypatch.context() as clock:
            clock.setattr(time, "time", lambda: now - 7200)
            clock.setattr(api_jwt, "datetime", _earlier(now - 7200))
            assert accounts.caller(old) is not None
            renewed = accounts.local_token(old)
            assert renewed != old and accounts.caller(renewed) is not None
            assert accounts.local_token(renewed) == renewed
        assert accounts.caller(renewed) is not None


def test_token_expires_with_one_minute_clock_tolerance(server: Server) -> None:
    claims = jwt.decode(load_credentials(server.data).token, options={"verify_signature": False})
    secret = (server.data / "jwt_secret").read_text()
    now = int(time.time())
    assert claims["exp"] - claims["iat"] == 30 * 86400

    def status(**times: int) -> int:
        return noop(server, "Bearer " + jwt.encode({"sub": claims["sub"], **times}, secret))

    assert status() == 401
    assert status(iat=now) == 401
    assert status(iat=now + 30, exp=now + 90) == 200
    assert status(iat=now - 90, exp=now - 30) == 200
    # Issued before the clock was set back: only the expiry counts.
    assert status(iat=now + 300, exp=now + 900) == 200
    assert status(iat=now - 900, exp=now - 90) == 401


def log_in(service: Server, name: str, password: str, address: str) -> httpx.Response:
    """Log in from an address of this machine."""
    form = {"username": name, "password": password}
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address)) as client:
        return client.post(service.url + "/user/login", json=form)


def test_tokens_are_valid_for_their_days(service: Server) -> None:
    form = "frank", "the password of frank"
    added = user(service, "add", form[0], "--password-stdin", input=f"{form[1]}\n")
    short = user(service, "token", form[0], "--days", "3")
    login = log_in(service, *form, "127.0.0.60").json()["token"]
    days = []
    for token in (added, short, login):
        claims = jwt.decode(token, options={"verify_signature": False})
        days.append((claims["exp"] - claims["iat"]) / 86400)
    assert days == [30, 3, 1]


def test_failed_logins_are_limited_per_name_and_per_address(service: Server) -> None:
    """Above the limit, the right password is refused, too."""
    user(service, "add", "heidi", "--password-stdin", input="correct horse\n")

    def statuses(*attempts: tuple[str, str]) -> list[int]:
        return [log_in(service, name, "x", address).status_code for name, address in attempts]

    assert statuses(*((f"g{number}", "127.0.0.20") for number in range(11))) == [401] * 10 + [429]
    assert statuses(("g11", "127.0.0.21"), ("g11", "127.0.0.20")) == [401, 429]
    attempts = [("Heidi", f"127.0.0.{number}") for number in range(30, 41)]
    assert statuses(*attempts) == [401] * 10 + [429]
    assert statuses(("ivan", "127.0.0.40")) == [401]
    refused = log_in(service, "heidi", "correct horse", "127.0.0.41")
    error(refused, 429, "too_many_logins")
    assert 0 < int(refused.headers["retry-after"]) <= 300


def test_audit_log_has_events_without_contents(service: Server) -> None:
    token = user(service, "add", "erin")
    ask(service, token, "sync", session="kept", messages=MESSAGES)
    exported = ask(service, token, "export_session", session="kept").json()["reports"][0]
    ask(service, token, "delete_session", session="kept")
    ask(service, token, "delete_session", session="kept")  # 404: nothing was done
    ask(service, token, "import_session", data=exported, session="again")
    user(service, "password", "erin", input="PASSWORD of erin\n")
    for password in ("PASSWORD of erin", "PASSWORD of another"):
        log_in(service, "erin", password, "127.0.0.50")
    form = {"username": "MY_SECRET_typed_here", "password": "PASSWORD_typed_here"}
    httpx.post(service.url + "/user/login", json=form)
    user(service, "remove", "erin", "--delete-sessions")
    text = (service.data / "audit.log").read_text()
    records = map(json.loads, text.splitlines())
    of_erin = [
        (record["event"], record.get("session")) for record in records if record["user"] == "erin"
    ]
    assert of_erin == [
        ("user_added", None),
        ("token_made", None),
        ("session_exported", "kept"),
        ("session_deleted", "kept"),
        ("session_imported", "again"),
        ("password_changed", None),
        ("tokens_revoked", None),
        ("token_made", None),
        ("login", None),
        ("login_failed", None),
        ("tokens_revoked", None),
        ("session_deleted", "again"),
        ("user_removed", None),
    ]
    assert (service.data / "audit.log").stat().st_mode & 0o777 == 0o600
    for secret in ("SECRET", "PASSWORD", token, service.client().headers["authorization"][7:]):
        assert secret not in text


def _earlier(moment: float) -> type[datetime]:
    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.fromtimestamp(moment, tz)

    return Earlier
