"""Text search, detection of failures, and the title of a session."""

from typing import Any

import pytest
from contextrender_bridge.engine.text.text_search import (
    CONTEXT_CHARACTERS,
    MAX_MATCH_CHARACTERS,
    MAX_MATCH_COUNT,
    MAX_OPENING,
    TextQuery,
    is_failure,
    opening_of,
)

from tests.support.transcripts import assistant, system, user


def test_search_ignores_case_and_regex_syntax() -> None:
    match = TextQuery("ord-1.0").find_in("an ORD-100, then Ord-1.0 and ord-1.0.")
    assert match is not None
    parts = (match.before, match.match, match.after)
    assert parts == ("an ORD-100, then ", "Ord-1.0", " and ord-1.0.")
    assert (match.start, match.match_count) == (17, 2)
    assert TextQuery("(x").find_in("f(x)") is not None
    assert TextQuery("absent").find_in("an absen t") is None


def test_match_and_context_are_bounded() -> None:
    text = "a" * 10_000
    match = TextQuery("a" * 900).find_in(f"{text}!")
    assert match is not None and len(match.match) == MAX_MATCH_CHARACTERS
    many = TextQuery("a").find_in(text)
    assert many is not None and many.match_count == MAX_MATCH_COUNT
    assert len(many.before) + len(many.after) <= 2 * CONTEXT_CHARACTERS


FAILURES = [
    *("Error: no such file", "  ERROR could not connect", "[error] out of memory"),
    "working\nTraceback (most recent call last):\n  ...\nKeyError: 'x'",
    "x" * 5_000 + "\nrequests.exceptions.ConnectionError: refused",
    *('{"error": {"code": 404}}', '{"isError": true, "content": []}', '{"success": false}'),
    *("<returncode>1</returncode>", "output\nexit code: 127", "Exit status 2"),
]
SUCCESSES = [
    *("", "0 errors, 12 passed", "The error rate is 2 %.", "exit code: 0"),
    *('{"error": null, "ok": true}', '{"errors": [], "error": "", "success": true}'),
    *("<returncode>0</returncode>", "class ValidationError(Exception): pass"),
]


def test_failures_are_distinguished_from_successes() -> None:
    assert [text for text in FAILURES if not is_failure(text)] == []
    assert [text for text in SUCCESSES if is_failure(text)] == []
    assert is_failure("no", '{"role": "tool", "is_error": true}')


@pytest.mark.parametrize(
    ("messages", "title"),
    [
        ([user("Why is\n checkout slow?")], "Why is checkout slow?"),
        (
            [
                system("<env>\nWorking directory: /home/me/shop\nIs git: yes\n</env>"),
                user([{"type": "text", "text": "Mend it."}]),
            ],
            "Mend it. (shop)",
        ),
        (
            [
                user("<environment_context><cwd>/srv/api</cwd></environment_context>"),
                user("<system-reminder>Be brief.</system-reminder>Add a test."),
            ],
            "Add a test. (api)",
        ),
        ([assistant("Hello."), user("Later.")], ""),
        ([user(None)], ""),
        ([user("word" * 10_000)], ("word" * MAX_OPENING)[: MAX_OPENING - 1] + "…"),
        ([user("cwd: /a/b")], "cwd: /a/b (b)"),
        (
            [system("cwd: /" + "f" * 99), user("w" * 99)],
            "w" * (MAX_OPENING - 34) + "… (" + "f" * 30 + ")",
        ),
    ],
)
def test_title_has_folder_and_first_words(messages: list[dict[str, Any]], title: str) -> None:
    assert opening_of(messages) == title
