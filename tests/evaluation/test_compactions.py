"""Losses of compactions on small sessions, counted by hand."""

import json
from pathlib import Path

from contextrender_bridge.base.wire import Json
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.compaction_score import CompactionScore
from contextrender_bridge.evaluation.compactions import measure
from contextrender_bridge.evaluation.runs import Run, compactions_of

from tests.support.command import printed
from tests.support.transcripts import assistant, step, user

CACHE_AWARE = [
    Case("contextrender_cache_aware", size, agent_defaults=True) for size in (400, 24_000)
]


def reads(id: str, path: str, text: str) -> list[Json]:
    return step(id, "read", f'{{"path": "{path}"}}', f"{FILLER} {text} {FILLER}", "")


FILLER = " ".join(f"plain words and OTHER_{n}" for n in range(300))
BEFORE = [
    user("Fix the build."),
    *reads("1", "a", "TOKEN_ALPHA and TOKEN_BETA."),
    *reads("2", "b", "TOKEN_GAMMA."),
    assistant("Half done."),
]
AFTER = [
    user("Summary: TOKEN_ALPHA matters."),
    assistant("I set TOKEN_ALPHA."),
    *reads("3", "b", "TOKEN_GAMMA."),
    assistant("Now TOKEN_GAMMA."),
    assistant("TOKEN_BETA too."),
    assistant("Done."),
]


def measured(*parts: Run) -> CompactionScore:
    return measure(compactions_of(parts), CACHE_AWARE)


def test_steps_are_those_that_use_earlier_results() -> None:
    score = measured(Run("s#1", "", "", BEFORE), Run("s#2", "", "", AFTER, continues="s#1"))
    reply = score.to_json()
    assert (reply["count"], reply["steps"]) == (1, 3)
    assert reply["summary_had_all"] == 1 / 3
    assert reply["read_again"] == 2 / 3
    assert reply["shown"]["24000"] == 1
    assert reply["shown"]["400"] < 1
    assert reply["read_again_calls"] == 1
    assert 0 < reply["read_again_tokens"] < 10_000
    assert reply["avoided"] == {"400": 1, "24000": 0}, "24,000 tokens have all of the history"


def test_second_compaction_counts_both_earlier_parts() -> None:
    third = [user("Summary: nothing."), assistant("TOKEN_ALPHA again, TOKEN_GAMMA again.")]
    parts = [
        Run("s#1", "", "", BEFORE),
        Run("s#2", "", "", AFTER, continues="s#1"),
        Run("s#3", "", "", third, continues="s#2"),
    ]
    first, second = compactions_of(parts)
    assert second.before == BEFORE + AFTER[1:]
    assert measure([second], CACHE_AWARE).to_json()["summary_had_all"] == 0
    assert compactions_of(parts[::-1]) == [first, second]


def test_messages_kept_by_compaction_belong_to_its_summary() -> None:
    (compaction,) = compactions_of(
        [Run("s#1", "", "", BEFORE), Run("s#2", "", "", [*BEFORE[3:], *AFTER], continues="s#1")]
    )
    assert compaction.summary == [*BEFORE[3:], AFTER[0]]


def test_copied_session_counts_once() -> None:
    copies = [Run("t#1", "", "", BEFORE), Run("t#2", "", "", AFTER, continues="t#1")]
    parts = [Run("s#1", "", "", BEFORE), Run("s#2", "", "", AFTER, continues="s#1"), *copies]
    assert len(compactions_of(parts)) == 1


def test_replay_reports_compactions(tmp_path: Path) -> None:
    runs = [
        {"id": "s#1", "source": "", "model": "", "messages": BEFORE},
        {"id": "s#2", "source": "", "model": "", "messages": AFTER, "continues": "s#1"},
    ]
    file, figures = tmp_path / "runs.jsonl", tmp_path / "figures.json"
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    output = printed("replay", file, "--policy", "prune", "--workers", "1", "--json", figures)
    assert "After 1 compaction by the agent: 3 steps" in output
    output = json.loads(figures.read_text())["compactions"]
    assert output["summary_had_all"] == 1 / 3 and output["shown"]["24000"] == 1
