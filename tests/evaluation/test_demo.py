"""`contextrender demo` and the run that is shipped with it."""

import pytest
from contextrender_bridge.cli import main

from evaluation.bootstrap import Estimate
from evaluation.cases import cases_of
from evaluation.demo import SHIPPED, SHOWN, told_of_live, told_of_others
from evaluation.runs import Run, read_runs
from evaluation.scores import CaseScore


@pytest.fixture(scope="module")
def shipped() -> Run:
    return read_runs([SHIPPED])[0]


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
        "omitted: left out when the prompt was rebuilt at call ",
        "After 1 compaction by the agent",
        "shown within 24,000 tokens",
        "The uses behind c",
    ):
        assert words in printed.out


def test_a_missing_file_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "no-such-file.jsonl"]) == 1
    assert capsys.readouterr().err.startswith("contextrender: cannot read no-such-file.jsonl")


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
