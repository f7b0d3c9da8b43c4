"""The terminal views of sessions, and their agreement with the console."""

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.cli.inspect.common import headline_share

from tests.api.test_superseded import USED_OLD
from tests.console.conftest import HOSTILE, LARGE, ORDERS, Console, Service, complete
from tests.console.looking import expect
from tests.console.transcripts import make_run
from tests.support.command import contextrender
from tests.support.transcripts import numbers_in, step, user


def run(service: Service, *arguments: str, status: int = 0, columns: int = 140) -> str:
    variables = {"CONTEXTRENDER_DATA": str(service.server.data), "COLUMNS": str(columns)}
    process = contextrender(*arguments, environment=os.environ | variables)
    assert process.returncode == status, process.stderr
    return process.stdout + process.stderr


@pytest.mark.slow
def test_sessions_are_listed_and_searched(service: Service) -> None:
    (listed,) = service("list_sessions", query=ORDERS)["sessions"]
    totals = complete(service, "savings", session=ORDERS)["totals"]
    (line,) = [line for line in run(service, "sessions").splitlines() if ORDERS in line]
    assert totals["steps_with_misses"] and totals["steps"]
    assert (
        f"{1 - totals['steps_with_misses'] / totals['steps']:.0%}" in line
        and f" {listed['turns']} " in line
    )
    output = run(service, "sessions", "--search", "NIGHTLY-0", "--limit", "5")
    assert output.count("nightly-0") == 5 and ORDERS not in output
    assert "no sessions with" in run(service, "sessions", "--search", "nowhere")
    by_turns = run_json(service, "sessions", "--sort", "turns", "--limit", "5")["sessions"]
    turns = [row["turns"] for row in by_turns]
    assert turns == sorted(turns, reverse=True) and turns[0] > turns[-1]
    assert "sort must be one of" in run(service, "sessions", "--sort", "colour", status=1)


@pytest.mark.slow
def test_search_in_one_session_or_all(service: Service) -> None:
    (match,) = json.loads(
        run(service, "search", "ORD_", "--session", ORDERS, "--limit", "1", "--json")
    )["matches"]
    output = run(service, "search", "ORD_", "--session", ORDERS, "--limit", "1")
    assert f"#{match['position']}" in output and "--limit searches further back" in output
    view = json.loads(
        run(service, "search", "ord_", "--tool", match["name"], "--limit", "150", "--json")
    )
    assert len(view["matches"]) == 150 and {m["name"] for m in view["matches"]} == {match["name"]}
    hostile = run(service, "search", "onerror", "--session", HOSTILE)
    assert "\x1b" not in hostile and "onerror" in hostile
    assert "nothing found" in run(service, "search", "no such text anywhere", "--session", ORDERS)
    assert "no session 'nowhere'" in run(service, "search", "x", "--session", "nowhere", status=1)
    assert "--errors" in run(service, "search", status=2)


def test_show_prints_a_line_for_each_result(service: Service) -> None:
    turns = service.timeline(ORDERS)
    lines = run(service, "show", ORDERS).splitlines()[2:]
    assert len(lines) == turns[-1]["results"]
    newest = [line.rstrip()[-1] for line in lines]
    complete_numbers = [n for n, mark in enumerate(newest) if mark in "█●"]
    assert complete_numbers == numbers_in(turns[-1]["complete"])


def test_show_prints_one_call(service: Service) -> None:
    reply = service("get_call", session=ORDERS, turn=30)
    output = run(service, "show", ORDERS, "--turn", "30")
    assert f"{reply['explain']['tokens_after']} of 6000 tokens" in output
    assert all(f"\n{line['position']:>2}  " in output for line in reply["messages"][:60])
    answer = service("read_message", session=ORDERS, position=reply["history_messages"])
    assert f"answer, message {reply['history_messages']}:" in output
    assert all(call["name"] in output.split("answer, message")[1] for call in answer["calls"])


def test_explain_prints_scores_and_uses(service: Service) -> None:
    reply = service("explain", session=ORDERS, turn=30, budget=2000)
    output = run(service, "explain", ORDERS, "--turn", "30", "--budget", "2000", "--uses")
    first = min((row for row in reply["results"] if row["order"]), key=lambda row: row["order"])
    assert output.splitlines()[2].startswith(f"{first['position']}  {first['name']}")
    used_row = next(row for row in reply["results"] if row["uses"])
    assert used_row["uses"][0]["values"][0]["value"] in output


def test_terminal_requests_only_shown_rows(service: Service) -> None:
    arguments = [ORDERS, "--turn", "30"]
    reply = service("explain", session=ORDERS, turn=30)
    first = run(service, "explain", *arguments, "--rows", "3").splitlines()
    every = run(service, "explain", *arguments).splitlines()
    assert [line.split()[:3] for line in first[:5]] == [line.split()[:3] for line in every[:5]]
    assert first[-1] == f"{reply['count'] - 3:,} more; --rows 0 shows all"
    few = json.loads(run(service, "explain", *arguments, "--rows", "3", "--json"))
    assert len(few["results"]) == 3 and few["count"] == reply["count"]

    last = service("get_call", session=ORDERS, turn=30)["messages"][-2:]
    output = run(service, "show", *arguments, "--messages", "2")
    assert all(f"\n{line['position']:>2}  " in output for line in last)
    assert " earlier" in output


@pytest.mark.slow
def test_misses_are_listed(service: Service) -> None:
    view = json.loads(run(service, "misses", LARGE, "--json"))
    assert view["turns"] == view["turn_count"] and view["next"] is None
    first = next(service.misses(LARGE))
    assert first == view["misses"][0]
    output = run(service, "misses", LARGE)
    turns = {miss["turn"] for miss in view["misses"] if not miss["names_only"]}
    assert f"{len(turns):,} missed one" in output
    assert f"#{first['position']} {first['name']}" in output and first["reason"] in output


def test_graph_is_printed(service: Service) -> None:
    view = service("reuse_graph", session=ORDERS)
    assert json.loads(run(service, "graph", ORDERS, "--json")) == view
    dot = run(service, "graph", ORDERS)
    arrows = sum(len(set(edge["source_messages"])) for edge in view["edges"])
    assert dot.startswith("digraph") and dot.count("->") == arrows
    fewer = json.loads(run(service, "graph", ORDERS, "--json", "--tool", "get_order"))
    assert 0 < len(fewer["edges"]) < len(view["edges"])


def test_control_characters_are_not_printed(service: Service) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07"
    read = step("c", f"t{evil}", evil, evil, evil)
    service.record("[red]escapes[/red]", [user(evil), *read])
    for command in ("show", "explain", "graph"):
        assert "\x1b" not in run(service, command, "[red]escapes[/red]")
    assert "\x1b" not in run(service, "show", "[red]escapes[/red]", "--turn", "2")
    assert "[red]escapes[/red]" in run(service, "sessions", "--limit", "3")
    service("delete_session", session="[red]escapes[/red]")


def test_unknown_session_is_one_sentence(service: Service) -> None:
    output = run(service, "show", "nothing", status=1)
    assert output.startswith("contextrender: there is no session 'nothing'")
    assert "`contextrender sessions`" in output


def test_unique_prefix_of_a_name_is_accepted(service: Service) -> None:
    messages = [{"role": "user", "content": "Look."}]
    for name in ("begun-alike-1", "begun-alike-2"):
        service("sync", session=name, messages=messages)
    assert "begun-alike-1" in run(service, "export", "begun-alike-1")
    assert '"begun-alike-2"' in run(service, "export", "begun-alike-2")
    assert "2 sessions begin with" in run(service, "show", "begun-alike", status=1)
    service("delete_session", session="begun-alike-1")
    assert '"begun-alike-2"' in run(service, "export", "begun-a")
    assert "no session" in run(service, "delete", "--yes", "begun-a", status=1)
    service("delete_session", session="begun-alike-2")


@pytest.mark.parametrize("command", [["sessions"], ["show", ORDERS], ["explain", ORDERS]])
def test_json_output_equals_endpoint(service: Service, command: list[str]) -> None:
    report = json.loads(run(service, *command, "--json"))
    if command == ["sessions"]:
        (row,) = [session for session in report["sessions"] if session["session"] == ORDERS]
        assert [row] == service("list_sessions", query=ORDERS)["sessions"]
        assert row["totals"]["calls"] > 0
    elif command[0] == "show":
        assert report["turns"] == service.timeline(ORDERS)
    else:
        assert report["results"] == service("explain", session=ORDERS)["results"]


def test_recall_prints_complete_results(service: Service) -> None:
    first = service("explain", session=ORDERS)["results"][0]
    arguments = [ORDERS, str(first["position"])]
    (result,) = json.loads(run(service, "recall", *arguments, "--json"))["results"]
    printed = run(service, "recall", *arguments)
    assert printed.startswith(f"#{first['position']} {first['name']}")
    assert result["message"]["content"] in printed
    query_reply = json.loads(run(service, "recall", ORDERS, "--query", first["name"], "--json"))
    assert len(query_reply["results"]) == 5
    run(service, "recall", ORDERS, status=2)


def test_session_is_exported_imported_and_deleted(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    run(service, "export", ORDERS, str(file))
    assert "remove it, or name another file" in run(service, "export", ORDERS, str(file), status=1)
    assert json.loads(run(service, "export", ORDERS)) == json.loads(file.read_text())
    assert "already" in run(service, "import", str(file), status=1)
    output = run(service, "import", str(file), "--as", "from-file")
    assert re.search(r"imported from-file: \d+ messages", output)
    assert "confirm with --yes" in run(service, "delete", "from-file", status=1)
    assert "deleted from-file" in run(service, "delete", "from-file", "--yes")
    assert service.post("inspect_session", session="from-file").status_code == 404


def test_invalid_export_file_is_refused(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    assert "No such file" in run(service, "import", str(file), status=1)
    file.write_text("notes")
    assert "it is not JSON" in run(service, "import", str(file), status=1)
    file.write_text("[]")
    assert "it is no JSON object" in run(service, "import", str(file), status=1)
    file.write_text("{}")
    assert "Traceback" not in run(service, "import", str(file), status=1)


def test_session_list_fits_terminal_and_has_titles(service: Service) -> None:
    name = "0f3c9a52-7d1e-4c1b-9a55-2f6f0a1b7c3d"
    system = {"role": "system", "content": "Working directory: /home/me/shop-of-the-second-kind"}
    words = "Why is checkout slow on Mondays?"
    service("sync", session=name, messages=[system, {"role": "user", "content": words}])
    output = run(service, "sessions", "--limit", "5", columns=80)
    (line,) = [line for line in output.splitlines() if line.startswith("0f3c9a52")]
    assert f"{words} (" in line
    assert name not in output
    assert all(len(line) <= 80 for line in output.splitlines())
    assert words in run(service, "export", "0f3c9a52")
    service("delete_session", session=name)


MODELS = ("gpt-4o", "claude-sonnet-4-5", "nobody-knows-this")


def run_json(service: Service, *words: str) -> Any:
    return json.loads(run(service, *words, "--json"))


def test_savings_are_equal_in_every_view(service: Service, console: Console) -> None:
    """Tokens and dollars are equal in the terminal, the console, the endpoints and a share link."""
    expect = importlib.import_module("playwright.sync_api").expect
    for seed, model in enumerate(MODELS):
        service.render(model, make_run(40, seed), model=model, budget=3000)
    rows = {row["model"]: row for row in service("total_savings")["rows"]}
    printed = {row["model"]: row for row in run_json(service, "savings")["rows"]}
    listed = {s["session"]: s for s in run_json(service, "sessions", "--limit", "200")["sessions"]}
    for model in MODELS:
        row, totals_in_list = rows[model], listed[model]["totals"]
        totals = complete(service, "savings", session=model)["totals"]
        assert printed[model] == row
        assert (totals["turns"], totals["prompt"], totals["full"]) == (
            *(row["calls"], row["prompt"], row["full_capped"]),
        )
        assert (totals["cached"], totals["output"]) == (row["cached"], row["output"])
        assert totals["cost"] == pytest.approx(row["cost"])
        assert totals["full_cost"] == pytest.approx(row["full_cost"])
        assert (totals_in_list["calls"], totals_in_list["prompt"], totals_in_list["full"]) == (
            *(row["calls"], row["prompt"], row["full_capped"]),
        )
        for name in ("steps", "steps_with_misses", "misses"):
            assert totals_in_list[name] == row[name] == totals[name]
        link = service("share_session", session=model, days=1)
        secret = link["path"].split("view=")[1].split("&")[0]
        assert complete(service.of(secret), "savings", session=model)["totals"] == totals
    assert rows["nobody-knows-this"]["cost"] is None
    priced = run_json(service, "savings", "--price", "nobody-knows-this:input=2,output=8")["rows"]
    assert {row["model"]: row["cost"] for row in priced}["nobody-knows-this"] > 0

    cost_texts = {}
    for model in MODELS:
        console.open(model, "savings")
        figure = console.page.locator(".savings .figure", has_text="Cost, estimated").locator("dd")
        expect(figure).to_have_text(re.compile("instead of|no price"))
        cost_texts[model] = figure.inner_text()
    assert cost_texts["nobody-knows-this"] == "no price"
    console.page.evaluate("location.hash = '#/overall'")
    sums = {
        name: sum(row[name] for row in service("total_savings")["rows"])
        for name in ("steps", "steps_with_misses")
    }
    headline = console.page.locator(".figure", has_text="Steps with all values").locator("dd")
    expect(headline).to_have_text(headline_share(sums))
    assert headline_share(sums) in run(service, "savings", columns=80)
    console.page.get_by_role("combobox", name="By").select_option("day and model")
    for model in MODELS:
        line = console.page.locator("tbody tr", has_text=model).filter(
            has_text=re.compile(r"^\d{4}-")
        )
        expect(line).to_contain_text(cost_texts[model])


@pytest.mark.parametrize(
    ("steps", "misses", "share"),
    [
        (0, 0, "–"),
        (4, 0, "100%"),
        (4, 4, "0%"),
        (12, 11, "8.3%"),
        (250, 1, "99.6%"),
        (9_999, 1, "99.9%"),
    ],
)
def test_share_below_one_is_never_100_percent(steps: int, misses: int, share: str) -> None:
    assert headline_share({"steps": steps, "steps_with_misses": misses}) == share


def test_replay_of_a_recorded_session_is_named(service: Service, console: Console) -> None:
    service.record("only recorded", make_run(12))
    assert "This is a replay" in " ".join(run(service, "show", "only recorded").split())
    assert "replay" not in run(service, "show", ORDERS)
    note = console.open("only recorded", "misses").page.get_by_text("This is a replay under")
    expect(note).to_be_visible()
    console.open(ORDERS, "misses").page.locator(".verdict").wait_for()
    expect(note).to_have_count(0)


SESSION = "old-versions"
MARK = "used an old version"


@pytest.fixture(scope="module")
def old_versions(service: Service) -> None:
    service.render(SESSION, USED_OLD, budget=6000)


@pytest.mark.usefixtures("old_versions")
def test_terminal_counts_uses_of_old_versions(service: Service) -> None:
    sentence = "2 uses were of an old version of a file."
    for command in ("show", "misses"):
        assert sentence in " ".join(run(service, command, SESSION).split())
    assert json.loads(run(service, "misses", SESSION, "--json"))["old_versions"] == 2
    assert "superseded by #4" in run(service, "recall", SESSION, "2")


@pytest.mark.slow
@pytest.mark.usefixtures("old_versions")
def test_console_marks_uses_of_old_versions(console: Console) -> None:
    page = console.open(SESSION, "call", 3).page
    used_results = page.get_by_label("Results it used")
    expect(used_results.get_by_text(MARK)).to_have_attribute(
        "title", "The file was edited at call 2"
    )
    expect(page.locator(".scores").get_by_text(MARK)).to_have_count(1)
    page = console.open(SESSION, "call", 2).page
    expect(page.get_by_label("Results it used")).not_to_contain_text(MARK)
    page = console.open(SESSION, "timeline").page
    page.get_by_role("application").press("ArrowLeft")
    page.get_by_role("application").press("ArrowLeft")
    expect(page.locator(".life")).to_contain_text(f"turn 3: shown complete, used, {MARK}")


def test_call_shows_times_and_error_of_its_reply(console: Console, service: Service) -> None:
    positions = [
        position
        for position, message in enumerate(service.runs[ORDERS])
        if message["role"] == "assistant"
    ]
    failure = {"messages": positions[5], "status": 429, "error": "rate_limit_exceeded"}
    times = {"first_byte_ms": 1234, "reply_ms": 3400, "status": 200}
    usage = {"messages": positions[4], "uncached": 900, "output": 50, **times}
    failed_usage = {"messages": positions[6], "status": 200, "error": "overloaded_error"}
    for report in (failure, usage, failed_usage):
        assert service("record_usage", session=ORDERS, usage=report)["recorded"]
    printed_times = "first byte after 1.2 s, whole answer after 3.4 s"
    printed_error = "rate_limit_exceeded"
    page = console.open(ORDERS, "call", 5).page
    expect(page.get_by_role("region", name="The answer")).to_contain_text(printed_times)
    console.open(ORDERS, "call", 6)
    expect(page.locator(".warnings")).to_contain_text(f"status 429 ({printed_error})")
    console.open(ORDERS, "call", 7)
    expect(page.locator(".warnings")).to_contain_text("ended with the error overloaded_error")
    assert "with the error overloaded_error" in run(service, "show", ORDERS, "--turn", "7")
    assert printed_times in " ".join(run(service, "show", ORDERS, "--turn", "5").split())
    assert f"failed with 429 {printed_error}" in run(service, "show", ORDERS, "--turn", "6")
