"""Count recorded runs again and compare every surface: `python -m bench.recount FILE [RUNS]`.

Long because the rules of misses and the reading of every surface are written a second time here.
FILE has runs as JSON Lines, also compressed. RUNS (10) of them, of different lengths, are played
through `client.fit`, as a live agent would send them. This program counts the prompts that
`fit` returned by the rules of `tests/support/slow_rules.py`, which share no code with the
engine. It compares these counts with the replies, the commands and the pages of the console.
"""

import gzip
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge import ContextRender
from contextrender_bridge.base.wire import Json

from tests.console.conftest import Console, Service, running_browser
from tests.server.servers import running_server
from tests.support import slow_rules
from tests.support.command import PROCESS

STEP = 10
PATIENCE_SECONDS = 600.0
"""The time for each request, because the recount may share its machine with other programs."""
FIGURES = """figures => Object.fromEntries([...figures.querySelectorAll(".figure")].map(figure =>
    [figure.querySelector("dt").innerText, figure.querySelector("dd").innerText]))"""
FIELD_ENDS = (":", "=")


@dataclass
class Counts:
    """The counts of one run. A use or a miss is a turn, and the position of the used result."""

    turns: int
    results: int
    uses: set[tuple[int, int]] = field(default_factory=set)
    misses: set[tuple[int, int]] = field(default_factory=set)
    results_by_tool: Counter[str] = field(default_factory=Counter)

    @property
    def steps(self) -> set[int]:
        """The turns with a use or a miss."""
        return {turn for turn, _ in self.uses | self.misses}

    @property
    def share(self) -> str:
        """The share of the steps without a miss, as pages and commands print it."""
        if not self.steps:
            return "–"
        share = 1 - len({turn for turn, _ in self.misses}) / len(self.steps)
        rounded = round(100 * share)
        if rounded == 100 and share < 1:
            return "99%"
        return f"{rounded}%"


def main() -> None:
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    counts: dict[str, Counts] = {}
    differences = Differences()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder) / "data") as server,
        server.client() as http,
        running_browser() as browser,
    ):
        service = Service(server, http)
        for run in read_runs(Path(sys.argv[1]), runs):
            run_counts = counts[run["id"]] = play(service, run)
            steps, misses = len(run_counts.steps), len(run_counts.misses)
            print(
                f"{run['id']}: {run_counts.turns} turns, {steps} steps, {misses} misses", flush=True
            )
        for name, run_counts in counts.items():
            compare_totals(service, name, run_counts, differences)
            compare_uses(service, name, run_counts, differences)
            compare_commands(service, name, run_counts, differences)
        compare_lists(service, counts, differences)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        compare_pages(Console(page, service).enter(), counts, differences)
    print(f"{differences.compared} numbers of {len(counts)} sessions, {differences.count} differ")
    sys.exit(differences.count > 0)


def read_runs(path: Path, limit: int) -> list[Json]:
    """Return `limit` runs of different lengths: every `STEP`th of those with most results."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    runs = [json.loads(line) for line in content.splitlines()]

    def result_count(run: Json) -> int:
        return sum(message["role"] == "tool" for message in run["messages"])

    return sorted(runs, key=result_count, reverse=True)[::STEP][:limit]


def play(service: Service, run: Json) -> Counts:
    """Send a run as an agent does, and count it by the prompts that the agent gets."""
    messages = run["messages"]
    prompts: dict[int, list[Json]] = {}
    with ContextRender(service.server.url, service.token, timeout=PATIENCE_SECONDS) as client:
        for position, message in enumerate(messages):
            if message["role"] == "assistant":
                turn = len(prompts) + 1
                fitted = client.fit(
                    run["id"],
                    messages[:position],
                    model=run["model"],
                    fail_open=False,
                    deadline=PATIENCE_SECONDS,
                )
                prompts[turn] = list(fitted.messages)
        client.sync(run["id"], messages)
    return count(messages, prompts)


def count(messages: list[Json], prompts: dict[int, list[Json]]) -> Counts:
    """Return the counts of a run, given the prompt of each turn."""
    turns = slow_rules.turns(messages)
    results = [p for p, message in enumerate(messages) if message["role"] == "tool"]
    calls = {
        result: slow_rules.name_and_arguments(messages[at]["tool_calls"][place])
        for result, (at, place) in slow_rules.answers(messages).items()
    }
    run_counts = Counts(turns=len(prompts), results=len(results))
    for result in results:
        name, _ = calls.get(result, ("", ""))
        run_counts.results_by_tool[name] += 1
    position_of = {event: position for position, event, _ in slow_rules.operations(messages)}
    for event, result, _ in slow_rules.uses(messages):
        run_counts.uses.add((turns[position_of[event]], result))
    tools = {name for name, _ in calls.values()}
    run_counts.misses = value_misses(messages, prompts, tools)
    run_counts.misses |= repeated_calls(messages, prompts, calls)
    return run_counts


def value_misses(
    messages: list[Json], prompts: dict[int, list[Json]], tools: set[str]
) -> set[tuple[int, int]]:
    """Return the misses of used values. Values that are only names of tools or fields are none."""
    complete_texts = texts_of_results(prompts)
    missing_values: dict[tuple[int, int], set[str]] = {}
    for turn, result, value in slow_rules.misses(messages, prompts):
        text = slow_rules.text_of(messages[result]["content"])
        if not has_complete(complete_texts[turn], text):
            missing_values.setdefault((turn, result), set()).add(value)
    misses: set[tuple[int, int]] = set()
    for (turn, result), values in missing_values.items():
        text = slow_rules.text_of(messages[result]["content"])
        if not all(is_field_name(value, text) for value in values - tools):
            misses.add((turn, result))
    return misses


def repeated_calls(
    messages: list[Json], prompts: dict[int, list[Json]], calls: dict[int, tuple[str, str]]
) -> set[tuple[int, int]]:
    """Return the misses of calls that were repeated while their latest result was not complete.

    `calls` has the name and the arguments of each result's call.
    """
    turns, complete_texts = slow_rules.turns(messages), texts_of_results(prompts)
    misses: set[tuple[int, int]] = set()
    for position, message in enumerate(messages):
        for call in message.get("tool_calls") or []:
            new_call = slow_rules.name_and_arguments(call)
            same = [r for r, earlier in calls.items() if r < position and earlier == new_call]
            if same:
                turn, latest = turns[position], max(same)
                text = slow_rules.text_of(messages[latest]["content"])
                if not has_complete(complete_texts[turn], text):
                    misses.add((turn, latest))
    return misses


def texts_of_results(prompts: dict[int, list[Json]]) -> dict[int, set[str]]:
    """Return the texts of the results in the prompt of each turn."""
    return {
        turn: {slow_rules.text_of(m["content"]) for m in prompt if m["role"] == "tool"}
        for turn, prompt in prompts.items()
    }


def has_complete(texts: set[str], text: str) -> bool:
    """Return whether one of the texts is this text, alone or followed by a restored result."""
    return text in texts or any(other.startswith(f"{text}\n\n") for other in texts)


def is_field_name(value: str, text: str) -> bool:
    """Return whether a value is only in front of a colon or an equals sign in a text."""
    return value not in slow_rules.values(without_field_names(text))


def without_field_names(text: str) -> str:
    """Return a text without the words that a colon or an equals sign follows, perhaps quoted."""
    letters_and_digits = slow_rules.LETTERS + slow_rules.CAPITALS + slow_rules.DIGITS
    stripped_text = word = ""
    for at, character in enumerate(text):
        if character in letters_and_digits + "_.-":
            word += character
            continue
        following = text[at : at + 40]
        unescaped = following.removeprefix("\\")
        if unescaped.startswith(("'", '"')):  # the quote after the word
            following = unescaped[1:]
        following = following.lstrip()
        is_name = following[:1] in FIELD_ENDS and following[1:2] not in (":", "=", "/")
        stripped_text += (" " if is_name else word) + character
        word = ""
    return stripped_text + word


class Differences:
    """A counter of compared numbers that prints each number that differs."""

    def __init__(self) -> None:
        self.compared = 0
        self.count = 0

    def check(self, place: str, reported: Any, expected: Any) -> None:
        self.compared += 1
        if reported != expected:
            self.count += 1
            print(f"  {place}: {reported!r}, counted {expected!r}", flush=True)


def compare_totals(
    service: Service, name: str, run_counts: Counts, differences: Differences
) -> None:
    """Compare the numbers of turns, results, uses and misses in the replies on one session."""
    expected_numbers = {
        "steps": len(run_counts.steps),
        "steps_with_misses": len({turn for turn, _ in run_counts.misses}),
        "misses": len(run_counts.misses),
    }
    report = service("inspect_session", session=name)
    differences.check(f"{name} turns", report["session"]["turns"], run_counts.turns)
    differences.check(f"{name} results", report["session"]["results"], run_counts.results)
    differences.check(f"{name} uses", report["uses"], len(run_counts.uses))
    differences.check(
        f"{name} tools",
        {tool["name"]: tool["results"] for tool in report["tools"] if tool["results"]},
        dict(run_counts.results_by_tool),
    )
    totals = report["session"]["totals"]
    differences.check(f"{name} uses in its totals", totals["results_used"], len(run_counts.uses))
    compared = service.complete("compare_policies", session=name)
    places = {
        "inspect_session": totals,
        "savings": service.complete("savings", session=name)["totals"],
        "compare_policies": compared["options"][compared["current_option"]],
    }
    for place, reply in places.items():
        for field_name, number in expected_numbers.items():
            differences.check(f"{name} {place} {field_name}", reply[field_name], number)


def compare_uses(service: Service, name: str, run_counts: Counts, differences: Differences) -> None:
    """Compare each single use and miss in the replies on one session."""
    turns = service.rows("timeline", "turns", session=name)
    positions = service("timeline", session=name)["results"]["positions"]
    for kind, expected in (("uses", run_counts.uses), ("misses", run_counts.misses)):
        reported = {(turn["turn"], positions[number]) for turn in turns for number in turn[kind]}
        differences.check(f"{name} timeline {kind}", sorted(reported ^ expected), [])
    missed = {
        (miss["turn"], miss["position"]) for miss in service.misses(name) if not miss["names_only"]
    }
    differences.check(f"{name} misses", sorted(missed ^ run_counts.misses), [])
    graph = service("reuse_graph", session=name)
    turn_of = {operation["event"]: operation["turn"] for operation in graph["operations"]}
    graph_uses = {
        (turn_of[edge["operation"]], graph["results"]["positions"][edge["result"]])
        for edge in graph["edges"]
    }
    differences.check(f"{name} reuse_graph", sorted(graph_uses ^ run_counts.uses), [])


def compare_commands(
    service: Service, name: str, run_counts: Counts, differences: Differences
) -> None:
    """Compare the headline that commands print for one session."""
    for command in ("show", "misses"):
        output = " ".join(printed_by(service, command, name).split())
        headline = "No answer used an earlier"
        if run_counts.steps:
            steps = f"{len(run_counts.steps):,} steps"
            headline = f"{run_counts.share} of {steps} had every value they used"
        differences.check(f"{name} contextrender {command}", headline in output, True)


def printed_by(service: Service, *words: str) -> str:
    """Return what a command prints."""
    environment = {**os.environ, "CONTEXTRENDER_DATA": str(service.server.data)}
    command = [*PROCESS, *words]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def compare_lists(service: Service, counts: dict[str, Counts], differences: Differences) -> None:
    """Compare the list of sessions, the savings over all and the tools over all."""
    listed = {view["session"]: view for view in service("list_sessions")["sessions"]}
    printed = json.loads(printed_by(service, "sessions", "--json"))
    tools = json.loads(printed_by(service, "tools", "--json"))
    rows = service("total_savings")["rows"]
    differences.check("contextrender sessions", printed["sessions"], list(listed.values()))
    misses = sum(len(run_counts.misses) for run_counts in counts.values())
    differences.check("total_savings misses", sum(row["misses"] for row in rows), misses)
    steps = sum(len(run_counts.steps) for run_counts in counts.values())
    differences.check("total_savings steps", sum(row["steps"] for row in rows), steps)
    by_tool = sum((run_counts.results_by_tool for run_counts in counts.values()), Counter[str]())
    reported = {tool["name"]: tool["results"] for tool in tools["tools"] if tool["results"]}
    differences.check("contextrender tools", reported, dict(by_tool))


def compare_pages(console: Console, counts: dict[str, Counts], differences: Differences) -> None:
    """Compare the list of sessions and the figures above each session's views."""
    page = console.page
    for name, run_counts in counts.items():
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
        shares = [text for text in row.locator("td").all_inner_texts() if text == run_counts.share]
        differences.check(f"{name} list of sessions", bool(shares), True)
    for name, run_counts in counts.items():
        for view in ("misses", "tools", "timeline", "call", "graph", "result", "savings"):
            console.open(name, view)
            shown_figures = page.locator(".session > .figures")
            shown_figures.wait_for()
            page.locator(".progress").wait_for(state="detached")
            shown_figures.get_by_text("…", exact=True).first.wait_for(state="detached")
            figures = shown_figures.evaluate(FIGURES)
            expected = {
                "Steps with all values": run_counts.share,
                "Turns": f"{run_counts.turns:,}",
                "Results": f"{run_counts.results:,}",
                "Uses": f"{len(run_counts.uses):,}",
            }
            reported = {title: figures.get(title) for title in expected}
            differences.check(f"{name} page {view}", reported, expected)


if __name__ == "__main__":
    main()
