"""The session list and full-text search."""

import json
import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import LARGE, ORDERS, Console, Service, complete
from tests.console.looking import expect
from tests.console.transcripts import make_run
from tests.support.transcripts import assistant, step, user

pytestmark = pytest.mark.slow


SEARCH = "Search sessions by name, model, client, tool or folder"


def rows(console: Console) -> Any:
    return console.page.locator("table.sessions tbody tr")


def row(console: Console, session: str) -> Any:
    return rows(console).filter(has=console.page.get_by_role("link", name=session, exact=True))


def test_list_shows_totals_of_a_session(console: Console, service: Service) -> None:
    (listed,) = service("list_sessions", query=ORDERS)["sessions"]
    totals = listed["totals"]
    cells = row(console, ORDERS).locator("td")
    expect(cells.nth(0)).to_have_text(str(listed["turns"]))
    expect(cells.nth(1)).to_have_text("64")
    saved = 1 - totals["prompt"] / totals["full"]
    assert totals["calls"] == listed["turns"] and 0.2 < saved < 1
    expect(cells.nth(3)).to_contain_text(f"{saved:.0%}")
    savings = complete(service, "savings", session=ORDERS)["totals"]
    share = 1 - savings["steps_with_misses"] / savings["steps"]
    expect(cells.nth(5)).to_have_text(f"{share:.0%}")
    most_used, *other_tools = sorted(listed["tools"], key=lambda name: -listed["tools"][name])
    expect(cells.nth(6)).to_have_text(f"{most_used} +{len(other_tools)}")
    expect(cells.nth(7)).to_have_text(re.compile("just now|min ago"))


def test_counts_are_explained_on_keyboard_focus(console: Console) -> None:
    """The text is equal in the list and in a session."""
    head = console.page.get_by_role("columnheader", name="Results", exact=True)
    script = "element => getComputedStyle(element, '::after').content"
    head.focus()
    text = head.get_attribute("title")
    console.page.keyboard.press("Shift+Tab")
    console.page.keyboard.press("Tab")
    expect(head).to_be_focused()
    assert head.evaluate(script).startswith(f'"{text}"')
    console.open(ORDERS)
    figure = console.page.locator(".figure", has_text="Results")
    expect(figure).to_have_attribute("title", f"{text}, in this branch")
    assert figure.get_attribute("tabindex") == "0"


def test_list_fits_a_phone(visit: Callable[..., Console]) -> None:
    page = visit(viewport={"width": 390, "height": 844}).enter().page
    page.locator("table.sessions tbody tr").first.wait_for()
    for wide in ("document.documentElement", "document.querySelector('.scroll')"):
        assert page.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth")


def test_list_is_sorted_by_server(console: Console, service: Service) -> None:
    by_size = [s["session"] for s in service("list_sessions", sort="tokens")["sessions"]]
    assert by_size[0] == LARGE
    console.page.get_by_role("button", name="Size").click()
    expect(rows(console).first).to_contain_text(by_size[0])
    expect(rows(console).nth(1)).to_contain_text(by_size[1])
    console.page.reload()
    expect(rows(console).first).to_contain_text(by_size[0])
    console.page.get_by_role("button", name="Size").click()
    expect(row(console, ORDERS)).to_be_visible()
    console.page.get_by_label("Active since").fill("2999-01-01")
    expect(console.page.get_by_text("No session has activity since 2999-01-01")).to_be_visible()


def test_list_is_searched_by_server(console: Console) -> None:
    console.page.get_by_label(SEARCH).fill("BACKLOG")
    expect(rows(console)).to_have_count(1)
    expect(row(console, LARGE)).to_be_visible()
    console.page.get_by_label(SEARCH).fill("track_ship")
    expect(row(console, LARGE)).to_be_visible()
    expect(console.page).to_have_url(re.compile("query=track_ship"))
    console.page.reload()
    expect(console.page.get_by_label(SEARCH)).to_have_value("track_ship")
    expect(rows(console).first).to_be_visible()
    console.page.get_by_label(SEARCH).fill("no such thing")
    expect(console.page.get_by_text("No session has “no such thing”")).to_be_visible()


def test_list_updates_live(console: Console, service: Service) -> None:
    service.record("just-started", make_run(2))
    expect(row(console, "just-started")).to_be_visible(timeout=8000)
    service("delete_session", session="just-started")
    expect(row(console, "just-started")).to_have_count(0, timeout=8000)


def test_session_is_deleted_after_confirmation(console: Console, service: Service) -> None:
    service.record("doomed", make_run(2))
    console.page.reload()
    session_row = row(console, "doomed")
    for confirmed in ("false", "true"):
        expect(session_row).to_be_visible()
        console.page.evaluate(f"window.confirm = () => {confirmed}")
        session_row.get_by_role("button", name="Delete doomed").click()
    expect(session_row).to_have_count(0)
    assert service.post("inspect_session", session="doomed").status_code == 404


def test_exported_files_are_imported(console: Console, service: Service, tmp_path: Path) -> None:
    data = service("export_session", session=ORDERS)
    files = [tmp_path / "one.json", tmp_path / "notes.json"]
    files[0].write_text(json.dumps({**data, "session": "from-a-file"}))
    files[1].write_text("not JSON at all")
    page = console.page
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import", exact=True).click()
    chooser.value.set_files(files[0])
    page.get_by_role("heading", name="from-a-file", level=1).wait_for()
    assert service("inspect_session", session="from-a-file")["branches"][0]["results"] == 64

    console.home()
    for file, message in ((files[0], "already"), (files[1], "there are no sessions in notes.json")):
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Import", exact=True).click()
        chooser.value.set_files(file)
        expect(page.get_by_role("alert")).to_contain_text(message)
    console.problems.clear()  # The browser's own line about a refused request.

    dropped = json.dumps({**data, "session": "dropped"})
    files_of = """text => {
        const carried = new DataTransfer();
        carried.items.add(new File([text], "two.json"));
        return carried;
    }"""
    carried = page.evaluate_handle(files_of, dropped)
    page.dispatch_event("table.sessions", "dragover", {"dataTransfer": carried})
    expect(page.get_by_text("Drop files with sessions")).to_be_visible()
    page.dispatch_event("table.sessions", "drop", {"dataTransfer": carried})
    page.get_by_role("heading", name="dropped", level=1).wait_for()
    for session in ("from-a-file", "dropped"):
        service("delete_session", session=session)


def test_agents_file_opens_with_diagnosis(
    console: Console, service: Service, tmp_path: Path
) -> None:
    """The file is opened without a recorded session; its first page is the diagnosis."""
    page = console.page
    file = tmp_path / "run.jsonl"
    run = [user("Go."), *step("a", "look", "{}", "TOKEN_ALPHA_7"), assistant("TOKEN_ALPHA_7")]
    file.write_text(json.dumps({"session": "an-agents-run", "messages": run}) + "\n")
    (session,) = service(
        "open_file", name=file.name, content=b64encode(file.read_bytes()).decode()
    )["sessions"]
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import", exact=True).click()
    chooser.value.set_files(file)
    page.get_by_role("heading", name=session["session"], level=1).wait_for()
    answer = page.get_by_role("region", name="Why did it go wrong?")
    expect(answer.locator(".verdict")).to_have_text(session["summary"])
    service("delete_session", session=session["session"])


def test_empty_list_offers_files_and_demo(console: Console, service: Service) -> None:
    empty = json.dumps({"reports": [{"sessions": [], "next": None}]})
    console.page.route("**/walker/list_sessions", lambda route: route.fulfill(body=empty))
    console.page.reload()
    expect(console.page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    expect(console.page.get_by_role("button", name="Drop files here")).to_be_visible()
    console.page.unroute("**/walker/list_sessions")
    console.page.get_by_role("button", name="A demo run").click()
    heading = console.page.locator(".session h1")
    heading.wait_for()
    service("delete_session", session=heading.inner_text())


def test_unreachable_service_is_shown_and_retried(console: Console) -> None:
    console.page.route("**/walker/**", lambda route: route.abort())
    console.page.reload()
    expect(console.page.get_by_role("alert")).to_contain_text("does not respond")
    console.page.unroute("**/walker/**")
    console.page.get_by_role("button", name="Try again").click()
    expect(row(console, ORDERS)).to_be_visible()
    console.problems.clear()


def test_savings_view_recovers_with_service(console: Console) -> None:
    console.page.route("**/walker/savings", lambda route: route.abort())
    console.open(ORDERS, "savings")
    expect(console.page.get_by_role("alert")).to_contain_text("does not respond")
    console.page.unroute("**/walker/savings")
    expect(console.page.get_by_role("alert")).to_have_count(0)
    expect(console.page.locator(".savings .figures")).to_be_visible()
    console.problems.clear()


def matches(console: Console) -> Any:
    return console.page.locator("ol.found > li")


def test_search_result_leads_to_its_message(console: Console) -> None:
    console.open(ORDERS).page.get_by_role("link", name="Search", exact=True).last.click()
    console.page.get_by_label("Text to find").fill("ord_")
    console.page.get_by_role("button", name="Search", exact=True).click()
    expect(matches(console)).to_have_count(25)
    expect(matches(console).locator("mark").first).to_have_text("ORD_")
    assert console.page.url.endswith(f"#/search?text=ord_&session={ORDERS}")
    console.page.get_by_role("button", name="Search further").click()
    expect(matches(console)).to_have_count(50)
    result = matches(console).filter(has=console.page.get_by_text("result", exact=True)).first
    link = result.get_by_role("link")
    position = (link.text_content() or "").partition("#")[2].partition(" ")[0]
    console.page.reload()
    expect(matches(console)).to_have_count(25)
    console.page.get_by_role("button", name="Search further").click()
    link.click()
    expect(console.page.get_by_role("heading", name=ORDERS, level=1)).to_be_visible()
    assert f"/result/{position}" in console.page.url
