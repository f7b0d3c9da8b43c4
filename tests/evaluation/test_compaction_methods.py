"""Steps after a compaction whose values are in the context, by compaction method."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from contextrender_bridge.base.compaction_size import DEFAULT_TOKENS
from contextrender_bridge.evaluation.compaction_methods import (
    AGENT,
    METHODS,
    OWN_SIZE,
    SIZES,
    MethodScore,
    RepeatedCompaction,
    method_table,
    repeat_compactions,
    repeated_sentence,
    score_runs,
    share_of,
)
from contextrender_bridge.evaluation.runs import Run

from tests.support.command import printed
from tests.support.transcripts import agent_run, assistant, user

BEFORE = agent_run(60)
TEXTS, NEWEST, RENDERED, SUMMARY = METHODS
USED_CLERKS = [1, 30, 50, 59]
"""The clerks named by the steps after the compaction; each is in exactly one result."""
STEPS = [assistant(f"I write to clerk_{number}@example.com.") for number in USED_CLERKS]
SUMMARY_WORDS = "Orders were looked up one after the other; most are on their way. " * 100


def session(name: str) -> list[Run]:
    summary = user(f"Summary of {name}: clerk_50@example.com knows. {SUMMARY_WORDS}")
    return [
        Run(f"{name}#1", "", "", [user(f"This is {name}."), *BEFORE]),
        Run(f"{name}#2", "", "", [summary, *STEPS], continues=f"{name}#1"),
    ]


@pytest.fixture(scope="module")
def scores() -> list[MethodScore]:
    return score_runs([*session("a"), *session("b")], workers=1)


def complete(scores: list[MethodScore], method: str, size: int) -> int:
    method_scores = [score for score in scores if (score.method, score.size) == (method, size)]
    assert [score.session for score in method_scores] == ["a#1", "b#1"]
    assert all(score.steps == len(USED_CLERKS) for score in method_scores)
    assert len({score.complete for score in method_scores}) == 1
    return method_scores[0].complete


def test_step_counts_if_context_has_all_its_values(scores: list[MethodScore]) -> None:
    assert complete(scores, AGENT, OWN_SIZE) == 1  # the summary names clerk_50
    for size in SIZES:
        assert complete(scores, TEXTS, size) == 0  # the user names none of them
    assert complete(scores, NEWEST, 8_000) in (2, 3)  # 50 and 59, perhaps 30
    assert complete(scores, NEWEST, 48_000) == complete(scores, RENDERED, 48_000) == 4
    assert complete(scores, SUMMARY, 48_000) == 4
    assert complete(scores, SUMMARY, OWN_SIZE) >= 1


def test_contexts_have_the_requested_size(scores: list[MethodScore]) -> None:
    for score in scores:
        if score.size != OWN_SIZE:
            assert 0 < score.tokens <= score.size, score


def test_intervals_are_over_sessions() -> None:
    def score(session: str, complete: int) -> MethodScore:
        return MethodScore(session, AGENT, OWN_SIZE, 9, 4, complete)

    share = share_of([score("a", 1), score("a", 3)])
    assert (share.value, share.low, share.high) == (0.5, None, None)
    two = share_of([score("a", 0), score("b", 4)])
    assert (two.value, two.low, two.high) == (0.5, 0.0, 1.0)


def test_eval_prints_table_and_writes_figures(tmp_path: Path) -> None:
    runs = [
        {"id": run.id, "messages": run.messages, "continues": run.continues} for run in session("a")
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    out = tmp_path / "out"
    text = printed("eval", file, "--compaction", "--workers", "1", "--out", out)
    assert "of 4 after 1 compaction in 1 session" in text
    assert all(method in text for method in (AGENT, *METHODS))
    assert "No session fills a window of 200,000 tokens." in text
    figures = json.loads((out / "compactions.json").read_text())
    assert len(figures["scores"]) == 1 + len(METHODS) * len(SIZES)
    file.write_text(json.dumps(runs[0]) + "\n")
    assert "no step in these runs" in printed("eval", file, "--compaction", status=1)


def test_table_has_a_row_for_each_method(scores: list[MethodScore]) -> None:
    table = method_table(scores)
    assert [row[0] for row in table.rows] == [AGENT, *METHODS]
    assert table.rows[0][1:] == ["25.0% [25.0,25.0]", "-", "-", "-", "-"]
    assert table.rows[3][-1] == "100.0% [100.0,100.0]"


def check_repeated(messages: list[dict[str, object]], window: int, size: int, minimum: int) -> None:
    """Check that the text does not grow, and that compactions are at least some turns apart."""
    compactions = repeat_compactions(messages, "", window, size)
    assert len(compactions) >= minimum
    assert all(compaction.tokens_after <= size + 10 for compaction in compactions)
    assert min(compaction.share_freed for compaction in compactions) > 0.5
    assert all(later.turn - earlier.turn > 3 for earlier, later in pairwise(compactions))


def test_repeated_compactions_free_equally_much() -> None:
    check_repeated(agent_run(300), window=20_000, size=4_000, minimum=3)


def test_sentence_on_one_repeated_compaction() -> None:
    sentence = repeated_sentence([[RepeatedCompaction(9, tokens_before=100, tokens_after=40)]])
    assert ": 1 compaction, each freed 60% to 60% of the context." in sentence


@pytest.mark.slow
def test_repeated_compactions_over_two_million_tokens() -> None:
    check_repeated(agent_run(1_700, lines=60), window=200_000, size=DEFAULT_TOKENS, minimum=12)
