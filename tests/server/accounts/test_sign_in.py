"""Signing in to the console: codes that work once, and a cookie that is nothing by itself."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server.servers import Server


@pytest.fixture
def stranger(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=300) as made:
        yield made


def code(client: httpx.Client) -> str:
    reply = client.post("/console/link", json={})
    assert reply.status_code == 200, reply.text
    made: str = reply.json()["code"]
    return made


@pytest.fixture
def proof(client: httpx.Client, stranger: httpx.Client) -> str:
    """The stranger is signed in; what has to go beside the cookie."""
    reply = stranger.post("/console/sign-in", json={"code": code(client)})
    assert reply.status_code == 200, reply.text
    given: str = reply.json()["proof"]
    return given


def call(stranger: httpx.Client, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return stranger.post("/walker/noop", json={}, headers=named).status_code


def test_a_code_works_once(client: httpx.Client, stranger: httpx.Client) -> None:
    made = code(client)
    assert stranger.post("/console/sign-in", json={"code": made}).status_code == 200
    stranger.cookies.clear()
    assert stranger.post("/console/sign-in", json={"code": made}).status_code == 401
    assert stranger.post("/console/sign-in", json={"code": made[:-2]}).status_code == 401
    assert stranger.post("/console/sign-in", json={}).status_code == 422
    assert stranger.post("/console/sign-in", json=[]).status_code == 422
    assert "set-cookie" not in stranger.post("/console/sign-in", json={"code": made}).headers


def test_a_code_is_made_for_bearers_alone(stranger: httpx.Client, proof: str) -> None:
    headers = {"x-contextrender-console": proof}
    assert stranger.post("/console/link", json={}, headers=headers).status_code == 401


def test_the_cookie_is_for_no_script_and_no_other_site(
    client: httpx.Client, stranger: httpx.Client
) -> None:
    reply = stranger.post("/console/sign-in", json={"code": code(client)})
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/walker/" in cookie


def test_the_cookie_is_nothing_without_its_proof(stranger: httpx.Client, proof: str) -> None:
    assert call(stranger, x_contextrender_console=proof) == 200
    assert call(stranger) == 401
    assert call(stranger, x_contextrender_console=proof[::-1]) == 401


def test_another_sites_page_gets_nothing_for_it(stranger: httpx.Client, proof: str) -> None:
    assert call(stranger, x_contextrender_console=proof, origin="http://127.0.0.1:1") == 403
    assert call(stranger, x_contextrender_console=proof, sec_fetch_site="same-site") == 403
    reply = stranger.post(
        "/console/sign-in", json={"code": "x"}, headers={"origin": "https://evil.example"}
    )
    assert reply.status_code == 403


def test_neither_code_nor_cookie_is_a_bearers_token(
    client: httpx.Client, stranger: httpx.Client, proof: str
) -> None:
    (cookie,) = stranger.cookies.values()
    stranger.cookies.clear()
    for token in (cookie, code(client), proof):
        assert call(stranger, authorization=f"Bearer {token}") == 401


def test_taking_tokens_back_ends_the_sign_in(server: Server) -> None:
    with server.client(server.add_user("signs-in")) as bearer:
        made, unused = code(bearer), code(bearer)
        with httpx.Client(base_url=server.url, timeout=300) as page:
            proof = page.post("/console/sign-in", json={"code": made}).json()["proof"]
            assert call(page, x_contextrender_console=proof) == 200
            assert server.command("user", "token", "signs-in", "--revoke").returncode == 0
            assert call(page, x_contextrender_console=proof) == 401
            assert page.post("/console/sign-in", json={"code": unused}).status_code == 401


def test_signing_out_takes_the_cookie_away(stranger: httpx.Client, proof: str) -> None:
    assert stranger.post("/console/sign-out", json={}).status_code == 200
    assert not list(stranger.cookies)
    assert call(stranger, x_contextrender_console=proof) == 401
