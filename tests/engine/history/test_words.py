"""Reuse of tokens in a session raises the rank of tokens of the same kind."""

import json

from contextrender_bridge.engine.parameters import Parameters
from contextrender_bridge.engine.text.transcript import Json

from tests.support.strategies import render
from tests.support.transcripts import step


def listing(batch: int, count: int) -> list[Json]:
    """Return a result with equally many lines of days and of accounts, days first."""
    accounts = [f"ACCT_{batch}{n:04} ACCU_{batch}{n:04} " + "on file " * 20 for n in range(count)]
    days = [f"20{batch}1-{n:04} 20{batch}2-{n:04} " + "on file " * 20 for n in range(count)]
    return step(f"l{batch}", "list", "{}", "\n".join(days + accounts), "")


def accounts_shown(used: str) -> float:
    """Return the share of account lines in the second half of the newest excerpt."""
    messages: list[Json] = [{"role": "user", "content": "go on"}, *listing(1, 20)]
    for number in range(20):
        arguments = json.dumps({"account": used.format(number)})
        messages += step(f"open{number}", "open", arguments, "done", "")
    messages += listing(2, 200)
    _, prompt = render(messages, 8_000, "contextrender_cache_aware", Parameters())
    lines = prompt[-1]["content"].splitlines()
    body = lines[len(lines) // 2 :]
    matching_lines = [line for line in body if "on file" in line]
    return sum("ACCT" in line for line in matching_lines) / len(matching_lines)


def test_excerpt_prefers_kinds_used_before() -> None:
    assert accounts_shown("ACCT_1{:04}") > accounts_shown("2011-{:04}") + 0.3
