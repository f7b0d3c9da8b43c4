"""What a session is about: its folder and its user's first words."""

from typing import Any

import pytest

from engine.text.opening import LONGEST, opening_of


def said(role: str, content: object) -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([said("user", "Why is\n checkout slow?")], "Why is checkout slow?"),
        (
            [
                said("system", "<env>\nWorking directory: /home/me/shop\nIs git: yes\n</env>"),
                said("user", [{"type": "text", "text": "Mend it."}]),
            ],
            "shop: Mend it.",
        ),
        (
            [
                said("user", "<environment_context><cwd>/srv/api</cwd></environment_context>"),
                said("user", "<system-reminder>Be brief.</system-reminder>Add a test."),
            ],
            "api: Add a test.",
        ),
        ([said("assistant", "Hello."), said("user", "Later.")], ""),
        ([said("user", None)], ""),
    ],
)
def test_the_folder_and_the_first_words(messages: list[dict[str, Any]], told: str) -> None:
    assert opening_of(messages) == told


def test_it_is_short() -> None:
    assert len(opening_of([said("user", "word " * 10_000)])) == LONGEST
