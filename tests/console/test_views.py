"""The console's views of one session."""

import json
import re
import shlex
from typing import Any

import pytest
from contextrender_bridge.engine.text.percentage import percent

from tests.console.conftest import BUDGET, LARGE, ORDERS, Console, Service, complete
from tests.console.looking import Visit, expect, is_drawn
from tests.console.transcripts import make_run
from tests.support.transcripts import numbers_in, step, user
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def point_at(console: Console, turn: int, row: int, turns: int, rows: int) -> None:
    """Move the pointer to a cell of the fitted timeline."""
    box = console.page.locator(".grid").evaluate(
        "grid => ({ width: grid.clientWidth, height: grid.clientHeight })"
    )
    width = min(40, (box["width"] - 190) / turns)
    height = min(20, (box["height"] - 22) / rows)
    console.page.locator(".grid").hover(
        position={"x": 190 + (turn - 0.5) * width, "y": 22 + (row + 0.5) * height}
    )


def state(turn: dict[str, Any], result: int) -> str:
    if result in numbers_in(turn["complete"]):
        return "shown complete"
    return "shown as an excerpt" if result in numbers_in(turn["substitutes"]) else "omitted"


def test_timeline_marks_turns_with_dropped_results(console: Console, service: Service) -> None:
    service.render("live", make_run(60, 3), policy="contextrender_cache_aware", budget=3000)
    previous: set[int] = set()
    dropped = []
    for turn in service.timeline("live"):
        now = {n for n in range(turn["results"]) if state(turn, n) != "omitted"}
        dropped += [turn["turn"]] * bool(previous - now)
        previous = now
    assert len(dropped) > 1
    rebuilds = console.open("live").page.locator(".rebuilds")
    expect(rebuilds).to_contain_text(f"dropped in {len(dropped)} calls")
    expect(rebuilds.get_by_role("link")).to_have_text([str(turn) for turn in dropped])
    service("delete_session", session="live")


def test_timeline_shows_history_of_a_result(console: Console, service: Service) -> None:
    console.open(ORDERS)
    turns = service.timeline(ORDERS)
    expect(console.page.locator(".progress")).to_have_count(0)
    assert is_drawn(console, ".grid canvas", 4)
    life = console.page.locator(".life")
    for turn, row in ((len(turns), 0), (30, 5), (35, 9), (20, 3)):
        point_at(console, turn, row, len(turns), 64)
        expect(life).to_contain_text(f"turn {turn}: {state(turns[turn - 1], row)}")
    use_turns = [turn["turn"] for turn in turns if 0 in turn["uses"]]
    point_at(console, len(turns), 0, len(turns), 64)
    assert use_turns
    expect(life).to_contain_text(re.compile(rf"used in turns? {use_turns[0]}"))


def test_timeline_works_with_keyboard(console: Console) -> None:
    console.open(ORDERS)
    expect(console.page.locator(".progress")).to_have_count(0)
    grid = console.page.locator(".grid")
    grid.focus()
    for key in ("Control+ArrowLeft", "Control+ArrowUp", *("ArrowRight",) * 4, "ArrowDown"):
        grid.press(key)
    expect(console.page.locator(".life")).to_contain_text("turn 5:")
    expect(console.page.locator(".timeline p[role=status]")).to_contain_text("Turn 5, result 5")
    grid.press("Enter")
    expect(console.page.get_by_label("Turn", exact=True).first).to_have_value("5")


def test_thousand_results_are_drawn_while_loading(console: Console) -> None:
    console.open(LARGE)
    grid = console.page.locator(".grid")
    expect(grid).to_have_attribute("aria-label", re.compile("1,000 results"))
    assert is_drawn(console, ".grid canvas", 4)
    expect(console.page.locator(".progress")).to_have_count(0)
    for _ in range(5):
        grid.press("+")
    grid.press("Control+ArrowRight")
    grid.press("End")
    grid.press("Control+ArrowDown")
    assert grid.evaluate("grid => grid.scrollTop > 5000 && grid.scrollLeft > 2000")
    expect(console.page.locator(".life")).to_contain_text("shown complete")
    console.page.get_by_role("button", name="Fit").click()
    expect(grid).to_have_js_property("scrollLeft", 0)


def test_call_view_agrees_with_explain(console: Console, service: Service) -> None:
    turn = 40
    reply = service("explain", session=ORDERS, turn=turn)
    console.open(ORDERS, "call", turn)
    after = reply["tokens_after"]
    expect(console.page.locator(".budget")).to_contain_text(f"{after:,} of {BUDGET:,} tokens")
    rows = console.page.locator(".scores tbody tr")
    expect(rows).to_have_count(len(reply["results"]))
    selected = sorted(
        (row for row in reply["results"] if row["order"]), key=lambda row: row["order"]
    )
    expect(rows.first).to_contain_text(f"#{selected[0]['position']}")
    console.page.get_by_role("button", name="Tokens").click()
    largest = max(reply["results"], key=lambda row: row["tokens"])
    expect(rows.first).to_contain_text(f"#{largest['position']}")
    expect(console.page.locator("th[aria-sort=descending]")).to_have_text("Tokens")
    assert "sort=-tokens" in console.page.url
    reused = next(row for row in reply["results"] if row["uses"])
    console.page.get_by_role("button", name="#").first.click()
    row = rows.filter(
        has=console.page.get_by_role("link", name=f"#{reused['position']}", exact=True)
    )
    row.locator("button").click()
    value = reused["uses"][0]["values"][0]["value"]
    expect(console.page.locator(".uses .chip").first).to_contain_text(value)


def test_call_view_shows_prompt_beside_full_history(console: Console, service: Service) -> None:
    turn = 40
    view = service("get_call", session=ORDERS, turn=turn)
    display_by_position = {row["position"]: row["display"] for row in view["explain"]["results"]}
    for line in view["messages"]:
        if line["position"] in display_by_position:
            assert line["display"] == display_by_position[line["position"]]
    console.open(ORDERS, "call", turn)
    response = console.page.get_by_role("region", name="What the model got")
    full_history = console.page.get_by_role("region", name="Full history")
    shown_positions = [
        position for position, kind in display_by_position.items() if kind != "omitted"
    ]
    expect(response.locator(".message.tool")).to_have_count(len(shown_positions))
    folds = full_history.locator("details.fold")
    assert folds.count() > 0
    inside = folds.first.locator(".message")
    expect(inside).to_have_count(0)
    folds.first.locator("summary").click()
    expect(inside.first).to_be_visible()
    expect(inside.first).to_contain_text("omitted")


def test_prompt_is_shown_and_copied_exactly(visit: Visit, service: Service) -> None:
    """It is copied as JSON, as Python and as a curl command."""
    console = visit(permissions=["clipboard-read", "clipboard-write"]).enter()
    turn, page = 40, console.page
    fields = {"session": ORDERS, "turn": turn, "rows": 0, "window": 0, "prompt": True}
    prompt = service("get_call", **fields)["prompt"]
    console.open(ORDERS, "call", turn)
    prompt_region = page.get_by_role("region", name="What the model got")
    expect(prompt_region.locator(".message")).to_have_count(len(prompt))
    assert prompt_region.locator("pre").all_text_contents() == [
        message["content"] for message in prompt if message["content"]
    ]

    def copy_prompt(kind: str) -> str:
        button = page.get_by_role("button", name=kind, exact=True)
        button.click()
        expect(button.locator("+ span")).to_have_text("Copied")
        return str(page.evaluate("navigator.clipboard.readText()"))

    assert json.loads(copy_prompt("JSON")) == prompt
    module: dict[str, Any] = {}
    exec(copy_prompt("pytest fixture").replace("@pytest.fixture\n", ""), module)
    assert module["prompt"]() == prompt
    assert json.loads(shlex.split(copy_prompt("curl"))[-1])["messages"] == prompt


def test_call_view_uses_settings_in_address(console: Console, service: Service) -> None:
    """The setting applies at once and is not stored."""
    before = service("export_session", session=ORDERS)
    turn = 40
    reply = service("explain", session=ORDERS, turn=turn)
    console.open(ORDERS, f"call/{turn}")
    expect(console.page.locator(".budget")).to_contain_text(f"of {BUDGET:,} tokens")
    for setting in ({"budget": 3000}, {"budget": 3000, "policy": "prune"}):
        other = service("explain", session=ORDERS, turn=turn, **setting)
        query_string = "&".join(f"{name}={value}" for name, value in setting.items())
        console.open(ORDERS, f"call/{turn}?{query_string}")
        expect(console.page.locator(".budget")).to_contain_text(
            f"{other['tokens_after']:,} of 3,000 tokens"
        )
        expect(console.page.locator(".tag.complete")).to_have_count(len(visible_results(other)))
        dropped_count = len(visible_results(reply) - visible_results(other))
        expect(console.page.locator(".call .verdict")).to_contain_text(
            f"without {dropped_count} that"
        )
        expect(console.page.locator(".outcome code")).to_contain_text("BUDGET=3000")
        expect(console.page.locator(".outcome")).to_contain_text(re.compile("would be|same values"))
    console.page.get_by_role("link", name="Show the session as it was").click()
    expect(console.page.locator(".budget")).to_contain_text(f"of {BUDGET:,} tokens")
    assert service("export_session", session=ORDERS) == before


def test_call_view_shows_answer(console: Console, service: Service) -> None:
    """The answer is complete, with the results that it uses; misses are red."""
    turns = service.timeline(ORDERS)
    run, missed = service.runs[ORDERS], next(service.misses(ORDERS))
    answers = [m for m in run if m["role"] == "assistant"]
    answer_region = console.page.get_by_role("region", name="The answer")
    for turn in (missed["turn"], len(answers)):
        answer = answers[turn - 1]
        console.open(ORDERS, "call", turn)
        expect(answer_region.locator("h2")).to_contain_text(f"message {run.index(answer)}")
        if answer["content"]:
            expect(answer_region.locator("pre")).to_have_text(answer["content"])
        for place, call in enumerate(answer.get("tool_calls", [])):
            call_view = answer_region.locator(".toolcall").nth(place)
            laid_out = json.dumps(json.loads(call["function"]["arguments"]), indent=2)
            expect(call_view).to_contain_text(laid_out)
        is_drawn = answer_region.locator(".drawn li")
        expect(is_drawn).to_have_count(len(turns[turn - 1]["uses"]))
    console.open(ORDERS, "call", missed["turn"])
    red = answer_region.locator(".drawn .lacking").first
    expect(red).to_have_text(re.compile("|".join(map(re.escape, missed["values"]))))
    expect(answer_region.locator("pre .lacking, .toolcall .lacking").first).to_be_visible()


def test_two_calls_are_compared(console: Console, service: Service) -> None:
    last = len(service.timeline(ORDERS))
    console.open(ORDERS, "call", last)
    console.page.get_by_text("Compare with another call").click()
    status = console.page.locator(".compare [role=status]")
    expect(status).to_contain_text("messages differ")
    console.page.get_by_label("Compare with turn").fill("12")
    console.page.keyboard.press("Enter")
    expect(console.page).to_have_url(re.compile("with=12"))
    expect(status).to_contain_text("messages differ")
    views = [service("get_call", session=ORDERS, turn=turn)["messages"] for turn in (12, last)]
    shown_by_call = [
        {line["position"] for line in view if line["display"] == "complete"} for view in views
    ]
    (came,) = sorted(shown_by_call[1] - shown_by_call[0])[-1:]
    row = console.page.locator(".compare tbody tr").filter(has_text=f"#{came} ")
    expect(row.locator("td").nth(0)).to_have_text("–")
    expect(row.locator("td").nth(1)).to_have_text("complete")
    console.page.reload()
    expect(status).to_contain_text("messages differ")


def visible_results(reply: dict[str, Any]) -> set[int]:
    return {row["position"] for row in reply["results"] if row["display"] != "omitted"}


def test_result_is_formatted_with_used_values_marked(console: Console, service: Service) -> None:
    graph = service("reuse_graph", session=ORDERS)
    number = next(
        edge["result"]
        for edge in graph["edges"]
        if graph["results"]["tools"][graph["results"]["names"][edge["result"]]] == "search_orders"
    )
    position = graph["results"]["positions"][number]
    content = service("read_message", session=ORDERS, position=position)
    assert content["text"] == service.runs[ORDERS][position]["content"]
    console.open(ORDERS, "result", position)
    text = console.page.locator(".blocks")
    expect(text).to_contain_text('{\n  "total"')
    value = content["used_values"][0]["value"]
    expect(text.locator("button.value", has_text=value).first).to_be_visible()
    console.page.get_by_label("lay out JSON").uncheck()
    expect(text).to_have_text(content["text"])
    text.locator("button.value", has_text=value).first.click()
    expect(console.page.get_by_role("region", name=f"Value {value}")).to_be_visible()


def test_large_result_loads_in_parts(console: Console, service: Service) -> None:
    text = "\n".join(f"line {number} of a très long résult 🙂" for number in range(12_000))
    read = step("c1", "read_log", "{}", text)
    service.record("large-result", [user("Read the log."), *read])
    console.open("large-result", "result", 2)
    more = console.page.get_by_role("button", name=re.compile("Load more"))
    # Text that loads above the button must not move it away from the pointer.
    expect(more).to_be_in_viewport()
    while more.count():
        remaining_text = more.text_content()
        more.click()
        expect(console.page.get_by_text(remaining_text or "", exact=True)).to_have_count(0)
    blocks = console.page.locator(".blocks pre")
    end = "line 11999 of a très long résult 🙂"

    def read_on() -> bool:
        console.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        console.page.wait_for_timeout(50)  # One frame, in which the page adds the next part.
        return end in (blocks.last.text_content() or "")

    wait_until(read_on)
    assert "\n".join(blocks.all_text_contents()) == text
    service("delete_session", session="large-result")


PRICE = "*:input=2,cached=0.5,output=8"


def test_savings_view_shows_totals_and_own_prices(console: Console, service: Service) -> None:
    totals = complete(service, "savings", session=ORDERS)["totals"]
    page = console.open(ORDERS, "savings").page
    figures = page.locator(".savings .figures")
    expect(figures).to_contain_text("no price")
    expect(page.locator(".savings .chart")).to_have_count(1)
    expect(page.get_by_text("used models without a price")).to_be_visible()
    page.get_by_label("Your own prices").fill(PRICE)
    page.get_by_role("button", name="Use", exact=True).click()
    expect(figures).to_contain_text("instead of $")
    expect(page.locator(".savings .chart")).to_have_count(2)
    saved = 1 - totals["prompt"] / totals["full"]
    expect(figures).to_contain_text(f"{saved:.0%}")
    expect(page.locator(".savings .verdict")).to_contain_text(headline(totals))
    # Another browser shows the same figures at this address.
    page.evaluate("localStorage.removeItem('contextrender.prices')")
    page.reload()
    expect(figures).to_contain_text("instead of $")


def headline(totals: Any) -> str:
    """Return the headline that every page shows."""
    steps, steps_with_misses = totals["steps"], totals["steps_with_misses"]
    return f"{percent(1 - steps_with_misses / steps)} of {steps:,} steps had every value they used"


def test_setting_chosen_on_curve_is_shown(console: Console, service: Service) -> None:
    page = console.open(ORDERS, "savings").page
    page.get_by_label("Your own prices").fill(PRICE)
    page.get_by_role("button", name="Use", exact=True).click()
    console.open(ORDERS)
    compared = complete(service, "compare_policies", session=ORDERS, prices=[PRICE])
    current = compared["options"][compared["current_option"]]
    settings = page.get_by_role("region", name="Settings")
    expect(settings.locator(".verdict")).to_have_text(compared["summary"])
    expect(page.locator(".session > .figures")).to_contain_text(headline(current)[:3])
    expect(settings.locator("circle.here")).to_have_count(1)
    other = next(option for option in compared["options"] if option["misses"] < current["misses"])
    settings.get_by_text("as a table").click()
    rows = settings.locator("tbody tr")
    expect(rows).to_have_count(len(compared["options"]))
    expect(rows.filter(has_text="in use")).to_contain_text("contextrender")
    rows.nth(compared["options"].index(other)).get_by_role("link").click()
    outcome = page.locator(".outcome")
    expect(outcome).to_contain_text("would be gone")
    line = f"CONTEXTRENDER_POLICY={other['policy']} CONTEXTRENDER_BUDGET={other['budget']}"
    expect(outcome).to_contain_text(line)
    page.get_by_role("link", name="Misses", exact=True).click()
    if other["misses"]:
        expect(page.locator(".misses .verdict")).to_contain_text(headline(other))
    page.get_by_role("link", name="Show the session as it was").click()
    expect(page.locator(".misses .verdict")).to_contain_text(headline(current))


def test_running_session_is_followed(console: Console, service: Service) -> None:
    service.record("running", service.runs[ORDERS][:8])
    console.open("running")
    expect(console.page.get_by_text("Model’s turn")).to_be_visible()
    service.record("running", service.runs[ORDERS][:20])
    turns = sum(message["role"] == "assistant" for message in service.runs[ORDERS][:20])
    awaits_answer = service.runs[ORDERS][19]["role"] != "assistant"
    label = re.compile(f"Timeline of {turns + awaits_answer} turns")
    grid = console.page.locator(".grid")
    expect(grid).to_have_attribute("aria-label", label)
    grid.press("+")
    console.page.get_by_label("follow").check()
    service.record("running", service.runs[ORDERS])
    below = "scrollTop > 0 && scrollTop + clientHeight > scrollHeight - 2"
    wait_until(lambda: grid.evaluate(f"({{ scrollTop, clientHeight, scrollHeight }}) => {below}"))
    service("delete_session", session="running")
    expect(console.page.get_by_text("There is no such session")).to_be_visible()
    console.problems.clear()


def was_complete(turns: list[Any], miss: Any) -> bool:
    """Return whether one of the turns showed the missed result complete."""
    later_turns = (turn for turn in turns if turn["results"] > miss["result"])
    return any(state(turn, miss["result"]) == "shown complete" for turn in later_turns)


def test_session_opens_with_misses(console: Console, service: Service) -> None:
    turns = service.timeline(LARGE)
    misses = [miss for miss in service.misses(LARGE) if not miss["names_only"]]
    first = misses[0]
    console.page.evaluate("where => { location.hash = where }", f"#/session/{LARGE}")
    page = console.page
    expect(page.get_by_role("link", name="Misses")).to_have_attribute("aria-current", "page")
    table = page.get_by_role("region", name="Misses")
    filters = page.get_by_role("group", name="Filter")
    dropped = sum(was_complete(turns[: miss["turn"] - 1], miss) for miss in misses)
    restored = sum(was_complete(turns[miss["turn"] :], miss) for miss in misses)
    assert 0 < restored < dropped
    counts = {"never complete": len(misses) - dropped, "dropped": dropped}
    for name, count in {**counts, "restored": restored, "all": len(misses)}.items():
        expect(filters.get_by_role("button", name=name)).to_have_text(f"{name} {count:,}")
        filters.get_by_role("button", name=name).click()
        expect(table.get_by_role("row")).to_have_count(min(count, 100) + 1)
    row = table.get_by_role("row").nth(1)
    expect(row).to_contain_text(f"#{first['position']} {first['name']}")
    expect(row).to_contain_text((*first["values"], "called again")[0])
    expect(row).to_contain_text(first["reason"])
    row.get_by_role("link", name=str(first["turn"]), exact=True).click()
    answer = page.get_by_role("region", name="The answer")
    expect(answer).to_contain_text(f"#{first['position']} {first['name']}")
