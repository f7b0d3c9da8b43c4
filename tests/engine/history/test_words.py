"""What a session's own reuse says of tokens of the same kind."""

import json

from engine.parameters import Parameters
from engine.text.transcript import Json
from tests.support.strategies import render
from tests.support.transcripts import step


def listing(call: str, rows: list[str]) -> list[Json]:
    return step(call, "list", "{}", "\n".join(rows), "")


def rows(batch: int, count: int) -> list[str]:
    """As many lines of accounts, and then as many of days."""
    accounts = [f"ACCT_{batch}{n:04} ACCU_{batch}{n:04} " + "on file " * 20 for n in range(count)]
    days = [f"20{batch}1-{n:04} 20{batch}2-{n:04} " + "on file " * 20 for n in range(count)]
    return days + accounts


def opened(account: str, number: int) -> list[Json]:
    return step(f"open{number}", "open", json.dumps({"account": account}), "done", "")


def accounts_shown(used: str) -> float:
    """The share of accounts among the lines of the newest list's excerpt that are not its head."""
    messages: list[Json] = [{"role": "user", "content": "go on"}, *listing("a", rows(1, 20))]
    for number in range(20):
        messages += opened(used.format(number), number)
    messages += listing("b", rows(2, 200))
    _, shown = render(messages, 8_000, "contextrender_frozen", Parameters())
    lines = shown[-1]["content"].splitlines()
    body = lines[len(lines) // 2 :]
    held = [line for line in body if "on file" in line]
    return sum("ACCT" in line for line in held) / len(held)


def test_an_excerpt_shows_more_of_what_was_used_of_a_tool_before() -> None:
    assert accounts_shown("ACCT_1{:04}") > accounts_shown("2011-{:04}") + 0.3
