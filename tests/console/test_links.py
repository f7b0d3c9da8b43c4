"""`contextrender console` prints links that open a view and sign in every tab of a browser."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.console.conftest import LARGE, ORDERS, Service
from tests.console.looking import Visit, expect
from tests.console.test_terminal import run
from tests.support.command import PROCESS

pytestmark = pytest.mark.slow


def link(service: Service, *arguments: str) -> str:
    return run(service, "console", "--print", *arguments).strip()


def test_link_opens_its_call(visit: Visit, service: Service) -> None:
    console = visit()
    console.page.goto(link(service, ORDERS, "--turn", "30"))
    expect(console.page.get_by_role("heading", name=ORDERS, level=1)).to_be_visible()
    assert console.page.url == f"{service.server.url}/console/#/session/{ORDERS}/call/30"
    console.page.reload()
    expect(console.page.get_by_role("heading", name=ORDERS, level=1)).to_be_visible()


def test_every_tab_of_the_browser_is_signed_in(visit: Visit, service: Service) -> None:
    first = visit()
    url = link(service)
    first.page.goto(url)
    expect(first.page.get_by_role("link", name=ORDERS)).to_be_visible()
    second = first.page.context.new_page()
    second.goto(f"{service.server.url}/console/#/session/{ORDERS}/result/3")
    expect(second.get_by_role("heading", name=ORDERS, level=1)).to_be_visible()
    second.goto("about:blank")
    second.goto(url)  # the link works once, but this browser is signed in
    expect(second.get_by_role("link", name=ORDERS)).to_be_visible()
    second.get_by_role("button", name="Sign out").click()
    expect(first.page.get_by_role("heading", name="Sign in")).to_be_visible()
    first.problems.clear()


def test_used_link_is_refused_in_another_browser(visit: Visit, service: Service) -> None:
    url = link(service)
    first, second = visit(), visit()
    first.page.goto(url)
    expect(first.page.get_by_role("link", name=ORDERS)).to_be_visible()
    second.page.goto(url)
    expect(second.page.get_by_role("alert")).to_contain_text("used before")
    second.problems.clear()


def test_sign_in_keeps_the_requested_view(visit: Visit, service: Service) -> None:
    console = visit()
    console.page.goto(f"{service.server.url}/console/#/session/{ORDERS}/result/3")
    expect(console.page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert console.page.url.endswith(f"#/session/{ORDERS}/result/3")


def test_unknown_session_or_turn_is_an_error(service: Service) -> None:
    assert "no session 'nowhere'" in run(service, "console", "nowhere", "--print", status=1)
    assert "no turn 999" in run(service, "console", ORDERS, "--turn", "999", "--print", status=1)
    assert "need a SESSION" in run(service, "console", "--turn", "3", status=2)


def test_terminal_opens_link_in_browser(service: Service, tmp_path: Path) -> None:
    """The browser is a script; without a terminal the link is printed."""
    opened_url_file = tmp_path / "told"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened_url_file}\n')
    browser.chmod(0o755)
    environment = {
        **os.environ,
        "CONTEXTRENDER_DATA": str(service.server.data),
        "BROWSER": f"{browser} %s",
    }
    command = [*PROCESS, "console", ORDERS]
    piped = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert f"to=%2Fsession%2F{ORDERS}" in piped.stdout and not opened_url_file.exists()
    controller, terminal = pty.openpty()
    subprocess.run(command, env=environment, stdout=terminal, check=True, timeout=60)
    os.close(terminal)
    os.close(controller)
    assert f"to=%2Fsession%2F{ORDERS}" in opened_url_file.read_text()


def test_shared_session_is_readable_until_revoked(visit: Visit, service: Service) -> None:
    owner = visit().enter().open(ORDERS)
    owner.page.get_by_role("button", name="Share").click()
    owner.page.get_by_label("For").fill("a colleague")
    owner.page.get_by_role("button", name="Make a link").click()
    url = owner.page.get_by_label("Link for a colleague").input_value()
    guest = visit()
    guest.page.goto(url)
    expect(guest.page.get_by_role("heading", name=ORDERS, level=1)).to_be_visible()
    assert guest.page.url == f"{service.server.url}/console/#/session/{ORDERS}"
    for name in ("Delete", "Export", "Share", "Graph store", "Sign out"):
        expect(guest.page.get_by_text(name, exact=True)).to_have_count(0)
    guest.page.reload()
    guest.page.get_by_role("link", name="Timeline").click()
    expect(guest.page.get_by_role("application")).to_be_visible()
    guest.page.evaluate("location.hash = '#/'")
    expect(guest.page.get_by_role("heading", name="This link opens one session")).to_be_visible()
    owner.page.get_by_role("button", name="Revoke").click()
    expect(owner.page.get_by_label("Link for a colleague")).to_have_count(0)
    guest.page.get_by_role("link", name=ORDERS).click()
    expect(guest.page.get_by_role("alert")).to_contain_text("revoked")
    guest.problems.clear()


def test_share_link_keeps_user_signed_in(visit: Visit, service: Service) -> None:
    shared = run(service, "share", LARGE, "--days", "1").strip()
    owner = visit().enter()
    guest = owner.page.context.new_page()
    guest.goto(shared)
    expect(guest.get_by_text("Read-only link")).to_be_visible()
    owner.page.reload()
    expect(owner.page.get_by_role("link", name=ORDERS)).to_be_visible()
    guest.get_by_role("button", name="Close").click()
    expect(guest.get_by_role("button", name="Share")).to_be_visible()


def test_terminal_creates_lists_and_revokes_links(service: Service) -> None:
    session = "nightly-03"
    url = run(service, "share", session, "--label", "review").split()[0]
    assert url.startswith(f"{service.server.url}/console/#view=")
    (link,) = json.loads(run(service, "share", session, "--list", "--json"))["links"]
    assert link["url"] == url and link["label"] == "review"
    assert link["id"] in run(service, "share", session, "--list")
    assert "no such link" in run(service, "share", session, "--revoke", "nothing", status=1)
    assert "no links to this session" in run(service, "share", session, "--revoke", link["id"])
    assert "no session 'nowhere'" in run(service, "share", "nowhere", status=1)
