"""Console sign-in: a code works once, and a cookie needs its proof."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server.servers import Server


@pytest.fixture
def browser(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=300) as browser:
        yield browser


def request_code(client: httpx.Client) -> str:
    reply = client.post("/console/link", json={})
    assert reply.status_code == 200, reply.text
    code: str = reply.json()["code"]
    return code


@pytest.fixture
def proof(client: httpx.Client, browser: httpx.Client) -> str:
    """Sign the browser in and return the proof that each request needs beside the cookie."""
    reply = browser.post("/console/sign-in", json={"code": request_code(client)})
    assert reply.status_code == 200, reply.text
    proof_text: str = reply.json()["proof"]
    return proof_text


def call(browser: httpx.Client, **headers: str) -> int:
    request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return browser.post("/walker/noop", json={}, headers=request_headers).status_code


def test_code_works_once(client: httpx.Client, browser: httpx.Client) -> None:
    code = request_code(client)
    assert browser.post("/console/sign-in", json={"code": code}).status_code == 200
    browser.cookies.clear()
    assert browser.post("/console/sign-in", json={"code": code}).status_code == 401
    assert browser.post("/console/sign-in", json={"code": code[:-2]}).status_code == 401
    assert browser.post("/console/sign-in", json={}).status_code == 422
    assert browser.post("/console/sign-in", json=[]).status_code == 422
    assert "set-cookie" not in browser.post("/console/sign-in", json={"code": code}).headers


def test_code_needs_bearer_token(browser: httpx.Client, proof: str) -> None:
    headers = {"x-contextrender-console": proof}
    assert browser.post("/console/link", json={}, headers=headers).status_code == 401


def test_cookie_is_http_only_and_same_site(client: httpx.Client, browser: httpx.Client) -> None:
    reply = browser.post("/console/sign-in", json={"code": request_code(client)})
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/walker/" in cookie


def test_cookie_without_proof_is_refused(browser: httpx.Client, proof: str) -> None:
    assert call(browser, x_contextrender_console=proof) == 200
    assert call(browser) == 401
    assert call(browser, x_contextrender_console=proof[::-1]) == 401


def test_cookie_from_another_site_is_refused(browser: httpx.Client, proof: str) -> None:
    assert call(browser, x_contextrender_console=proof, origin="http://127.0.0.1:1") == 403
    assert call(browser, x_contextrender_console=proof, sec_fetch_site="same-site") == 403
    reply = browser.post(
        "/console/sign-in", json={"code": "x"}, headers={"origin": "https://evil.example"}
    )
    assert reply.status_code == 403


def test_code_cookie_and_proof_are_not_bearer_tokens(
    client: httpx.Client, browser: httpx.Client, proof: str
) -> None:
    (cookie,) = browser.cookies.values()
    browser.cookies.clear()
    for token in (cookie, request_code(client), proof):
        assert call(browser, authorization=f"Bearer {token}") == 401


def test_revoking_tokens_ends_sign_in(server: Server) -> None:
    with server.client(server.add_user("signs-in")) as bearer:
        code, unused = request_code(bearer), request_code(bearer)
        with httpx.Client(base_url=server.url, timeout=300) as page:
            proof = page.post("/console/sign-in", json={"code": code}).json()["proof"]
            assert call(page, x_contextrender_console=proof) == 200
            assert server.command("user", "token", "signs-in", "--revoke").returncode == 0
            assert call(page, x_contextrender_console=proof) == 401
            assert page.post("/console/sign-in", json={"code": unused}).status_code == 401


def test_signing_out_deletes_cookie(browser: httpx.Client, proof: str) -> None:
    assert browser.post("/console/sign-out", json={}).status_code == 200
    assert not list(browser.cookies)
    assert call(browser, x_contextrender_console=proof) == 401
