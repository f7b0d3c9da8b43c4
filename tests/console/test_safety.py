"""Sign-in to the console, its users' sessions, and contents that never run as code."""

import re
from urllib.parse import quote

import httpx
import pytest

from tests.console.conftest import HOSTILE, ORDERS, PASSWORD, Console, Service
from tests.console.looking import Visit, expect

pytestmark = pytest.mark.slow


def test_printed_link_leaves_no_token_in_browser(console: Console) -> None:
    page = console.page
    assert "token" not in page.url
    browser_storage = page.evaluate(
        "JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie"
    )
    assert console.service.token not in browser_storage and "eyJ" not in browser_storage
    page.reload()
    expect(page.get_by_role("link", name=ORDERS)).to_be_visible()


def sign_in(console: Console, password: str) -> Console:
    """Sign in as the other user."""
    console.page.goto(f"{console.service.server.url}/console/")
    console.page.get_by_label("Name").fill("other")
    console.page.get_by_label("Password").fill(password)
    console.page.get_by_role("button", name="Sign in").click()
    return console


def test_user_signs_in_and_out(visit: Visit, other: str) -> None:
    console = sign_in(visit(), PASSWORD)
    expect(console.page.get_by_role("link", name="not yours")).to_be_visible()
    expect(console.page.get_by_role("link", name=ORDERS)).to_have_count(0)
    console.page.get_by_role("button", name="Sign out").click()
    expect(console.page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert console.page.evaluate("localStorage.length") == 0
    assert console.page.context.cookies() == []


def test_wrong_password_is_refused(visit: Visit, other: str) -> None:
    console = sign_in(visit(), "wrong password")
    expect(console.page.get_by_role("alert")).to_have_text("The name or the password is wrong.")
    console.problems.clear()


def test_invalid_token_opens_login(visit: Visit, service: Service) -> None:
    console = visit()
    console.page.goto(f"{service.server.url}/console/#token=forged")
    expect(console.page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(console.page.get_by_role("alert")).to_contain_text("Sign in again")
    console.problems.clear()


@pytest.mark.parametrize("view", ["timeline", "call/40", "graph", "result/5", "savings"])
def test_contents_never_run_as_code(console: Console, view: str) -> None:
    page = console.page
    page.evaluate(
        "where => { location.hash = where }", f"#/session/{quote(HOSTILE, safe='')}/{view}"
    )
    expect(page.get_by_role("heading", name=HOSTILE, level=1)).to_be_visible()
    expect(page.locator(".progress")).to_have_count(0)
    page.wait_for_timeout(300)
    if view == "call/40":
        for fold in page.locator("details.fold summary").all()[:3]:
            fold.click()
        expect(page.get_by_text("<script>window.hacked=1</script>").first).to_be_visible()
    if view == "result/5":
        expect(page.locator(".blocks")).to_contain_text("<script>window.hacked=1</script>")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img, main a[href^=javascript]").count() == 0


def test_injected_script_is_blocked(console: Console) -> None:
    """The content security policy blocks it."""
    console.page.evaluate(
        """() => {
            const script = document.createElement("script");
            try { script.text = "window.hacked = 1"; } catch {}
            document.body.append(script);
            try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='hacked=1'>"); }
            catch {}
        }"""
    )
    console.page.wait_for_timeout(200)
    assert console.page.evaluate("window.hacked") is None
    assert len(console.problems) >= 2
    assert all("blocked" in problem for problem in console.problems)
    console.problems.clear()


def test_console_has_strict_content_security_policy(service: Service) -> None:
    with httpx.Client(base_url=service.server.url) as client:
        page = client.get("/console/")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy and "*" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-cache"
        assets = re.findall(r'(?:src|href)="(/console/[^"]+)"', page.text)
        assert len(assets) == 3
        for path in assets:
            reply = client.get(path)
            assert reply.status_code == 200
            assert reply.headers["content-security-policy"] == policy
        entry = client.get("/console")
        assert (entry.status_code, entry.headers["location"]) == (308, "/console/")
        for path in ("/console/nothing", "/console/..%2fserver/app.py", "/console/sources.sha256"):
            assert client.get(path).status_code == 404
