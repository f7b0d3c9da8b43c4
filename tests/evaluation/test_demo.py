"""`contextrender demo` and the run that is shipped with it."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.cli import main

from engine.history.history import History
from engine.lookback.measures import recall_events
from engine.text.tokens import counter_for
from evaluation.bootstrap import Estimate
from evaluation.cases import Case, cases_of
from evaluation.demo import SHIPPED, SHOWN, compacted, told_of_live, told_of_others
from evaluation.explained import Telling
from evaluation.runs import Run, read_runs
from evaluation.scores import CaseScore, Prompt, Turn, turns_of


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


def test_its_compaction_is_of_a_long_history(shipped: Run) -> None:
    before, after = compacted(shipped)
    counter = counter_for(None)
    tokens = [sum(map(counter.message, run.messages)) for run in (before, after)]
    assert tokens[0] > 30_000 and 500 < counter.message(after.messages[1]) < 2_000
    assert after.messages[2:] == shipped.messages[len(before.messages) :]


@pytest.mark.slow
def test_it_replays_the_shipped_run_and_explains_a_call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXGRAPH_MODEL", "must-not/be-called")
    monkeypatch.setenv("CONTEXTRENDER_URL", "http://127.0.0.1:9")
    assert main(["demo"]) == 0
    printed = capsys.readouterr()
    assert "Replaying model calls: 192 of 192" in printed.err
    for words in (
        "checkout-latency",
        "contextrender@6000 is the paper's policy",
        "contextrender_frozen@auto is for live agents",
        "contextrender",
        "prune",
        "full",
        "One call explained",
        "complete, 1st",
        "omitted: left out when something last had to leave.",
        "After 1 compaction by the agent",
        "shown within 24,000 tokens",
        "The uses behind c",
    ):
        assert words in printed.out


@pytest.mark.slow
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


def test_the_demo_says_what_fewer_tokens_cost_and_where_a_baseline_is_ahead() -> None:
    cases = cases_of("contextrender_frozen@24000,contextrender,prune,full", "6000")
    sums = [CaseScore(case) for case in cases]
    for score, rendered in zip(sums, (50, 20, 20, 100), strict=True):
        score.recall.add_invocation(100, rendered, 6)

    def figures(bill: float, values: float) -> dict[str, Estimate]:
        known = {name: Estimate(0.5, None, None) for name in SHOWN}
        known["openai_prompts"] = Estimate(bill, None, None)
        known["value_recall"] = Estimate(values, None, None)
        return known

    rows = [figures(0.6, 0.9), figures(1.005, 0.7), figures(1.4, 0.8), figures(1, 1)]
    live, (paper, ahead) = told_of_live(sums, rows), told_of_others(sums, rows)
    assert "80.0% fewer tokens, for\n100.5% of the bill with OpenAI's cache" in paper
    assert "50.0% fewer tokens, for 60.0% of the bill" in live
    assert "90.0% of the values" in live
    assert "prune@6000 showed more of the values than contextrender@6000 (80.0% to 70.0%)" in ahead
    rows[2] = figures(1.4, 0.7)
    assert len(told_of_others(sums, rows)) == 1
