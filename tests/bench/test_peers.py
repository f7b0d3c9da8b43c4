"""Tables of context policies of ContextRender and of others, on generated runs."""

import json
import subprocess
import sys
from pathlib import Path

from bench.peers.with_rules import CLEARED, OMITTED, make
from tests.support.transcripts import agent_run, assistant, step, user

RESULT = "plain words " * 4_000
"""A result of 12,000 tokens by opencode's count of four characters each."""


def test_newest_results_omits_the_oldest_until_the_rest_fits() -> None:
    history = [user("Go."), *step("1", "read", "{}", RESULT, ""), *step("2", "read", "{}", "b", "")]
    shortened = make("newest")(history, 1_000)
    contents = [message["content"] for message in shortened if message["role"] == "tool"]
    assert contents == [OMITTED, "b"]
    assert make("newest")(history, 100_000) == history


def test_opencode_clears_old_results_of_earlier_user_turns() -> None:
    """Of seven results in an earlier turn, the newest three have less than 40,000 tokens."""
    results = [message for n in range(7) for message in step(str(n), "read", "{}", RESULT, "")]
    turns = [message for words in ("A", "B") for message in (user(words), assistant(words))]
    history = [user("Go."), *results, *turns, user("C")]
    assert make("opencode")(history[:-2], 0) == history[:-2], "the last two turns stay"
    shortened = make("opencode")(history, 0)
    contents = [message["content"] for message in shortened if message["role"] == "tool"]
    assert contents == [CLEARED] * 4 + [RESULT] * 3
    assert [message["role"] for message in shortened] == [message["role"] for message in history]


def test_own_function_has_a_row(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def shorten(messages, tokens):\n    return messages[-6:]\n")
    run = {"id": "r", "source": "", "model": "", "messages": agent_run(60)}
    (tmp_path / "runs.jsonl").write_text(json.dumps(run))
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-m", "bench.peers", "runs.jsonl", "--only", "newest results"]
    process = subprocess.run(
        [*command, "--function", "mine:shorten"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{root}:{root / 'py_bridge'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split()[0] for line in process.stdout.splitlines() if line.strip()]
    assert {"mine:shorten", "newest", "contextrender@6000"} <= set(rows)
