"""The bench's own parts that need no measuring."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent.parent / "bench" / "latency"


def run(*command: str) -> str:
    return subprocess.run(
        [sys.executable, *command], check=True, capture_output=True, text=True, cwd=BENCH
    ).stdout


def test_it_says_what_it_does() -> None:
    said = run(str(BENCH), "--help")
    assert all(option in said for option in ("--quick", "--peers", "--json"))


def test_its_runs_are_always_the_same_and_draw_on_their_results() -> None:
    program = """
from sample import Sample
one, other = Sample(3).run(40), Sample(3).run(40)
assert one == other != Sample(4).run(40)
results = [message["content"] for message in one if message["role"] == "tool"]
assert {len(text) for text in results} == {2000}
import json
drawn = [json.loads(m["tool_calls"][0]["function"]["arguments"])["query"] for m in one[4::2]]
earlier = [any(value in text for text in results[:n + 1]) for n, value in enumerate(drawn)]
print(sum(earlier) / len(earlier))
"""
    assert float(run("-c", program)) > 0.6
