"""`contextrender demo` and the run that is shipped with it."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.cli import main

from engine.history.history import History
from engine.lookback.measures import recall_events
from engine.text.tokens import counter_for
from evaluation.cases import Case
from evaluation.demo import SHIPPED
from evaluation.explained import Telling
from evaluation.runs import Run, read_runs
from evaluation.scores import Prompt, Turn, turns_of


@pytest.fixture(scope="module")
def shipped() -> Run:
    return read_runs([SHIPPED])[0]


def test_the_shipped_run_is_long_and_varied(shipped: Run) -> None:
    assert SHIPPED.stat().st_size < 400_000
    history = History()
    history.extend(shipped.messages, counter_for(None))
    results = history.results
    assert 45 <= len(results) <= 60
    assert 35_000 <= history.total_tokens <= 60_000
    assert max(results.tokens) > 6_000
    assert history.unanswered_calls() == 0
    calls = [m["tool_calls"] for m in shipped.messages if m.get("tool_calls")]
    assert max(map(len, calls)) > 1
    assert "" in {call["function"]["arguments"] for several in calls for call in several}
    assert sum(message["role"] == "user" for message in shipped.messages) == 2
    ages = {event.age for event in recall_events(shipped.messages)}
    assert {1, 10, 20, 30} <= ages


def test_it_replays_the_shipped_run_and_explains_a_call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXGRAPH_MODEL", "must-not/be-called")
    monkeypatch.setenv("CONTEXTRENDER_URL", "http://127.0.0.1:9")
    assert main(["demo"]) == 0
    printed = capsys.readouterr()
    assert "Replaying model calls: 144 of 144" in printed.err
    for words in (
        "checkout-latency",
        "contextrender",
        "prune",
        "full",
        "One call explained",
        "complete, 1st",
        "omitted: results with a higher score filled the budget.",
        "The uses behind c",
    ):
        assert words in printed.out


def test_it_takes_other_runs_and_says_how_many(
    tmp_path: Path, shipped: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    lines = [{"id": f"r[{n}]", "messages": shipped.messages[:12]} for n in range(3)]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert main(["demo", "--traces", str(path), "--limit", "2"]) == 0
    printed = capsys.readouterr().out
    assert "r[0]" in printed
    assert "r[2]" not in printed
    assert "all 2" in printed
    assert f"The first 2 runs of {path}" in printed


def test_a_missing_file_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "no-such-file.jsonl"]) == 1
    assert capsys.readouterr().err.startswith("contextrender: cannot read no-such-file.jsonl")


def test_the_call_that_tells_most_is_the_latest_with_most_kept(shipped: Run) -> None:
    ours, baseline = Case("contextrender", 6000), Case("prune", 6000)
    turns = [turn for turn in turns_of(shipped) if len(turn.events) > 1][:4]
    telling = Telling(ours, baseline)

    def show(case: Case, turn: Turn, kept: int) -> None:
        positions = frozenset(event.position for event in turn.events[:kept])
        telling.watch(case, turn, Prompt(0, 0, 0, positions, []))

    for number, kept in enumerate((0, 2, 2, 1)):
        telling.begin(number)
        show(ours, turns[number], kept)
        show(baseline, turns[number], 0)
    assert (telling.run, telling.turn) == (2, turns[2])
