"""The description of omitted lines of a newest result, in the terms of its tool."""

import pytest
from contextrender_bridge.engine.plan.excerpt_text import describe_omitted_lines

from tests.support.strategies import render
from tests.support.transcripts import step, user

PLAIN = "".join(f"word {n}\n" for n in range(1, 101))
CLAUDE = "".join(f"{n:6}→word {n}\n" for n in range(201, 301))
OPENCODE = "".join(f"{n:05}| word {n}\n" for n in range(201, 301))


PARTS = [(11, 20), (31, 40), (61, 70)]
LATER = '{"start_line": 200}'


def visible_ranges(text: str, *lines: tuple[int, int]) -> list[tuple[int, int]]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [(starts[first - 1], starts[last]) for first, last in lines]


@pytest.mark.parametrize(
    ("text", "lines", "tool", "arguments", "expected"),
    [
        (PLAIN, [(1, 20), (41, 60)], "exec", "{}", "lines 21-40, 61-100"),
        (PLAIN, PARTS, "exec", "{}", "lines 1-10, 41-60, 71-100 and others"),
        (CLAUDE, [(1, 20), (81, 100)], "exec", "{}", "lines 221-280"),
        (CLAUDE, [(1, 20)], "Read", "{}", "lines 221-300 (read on with offset 221)"),
        (OPENCODE, [(1, 20)], "read", "{}", "lines 221-300 (read on with offset 221)"),
        (CLAUDE, [(1, 20)], "read_file", LATER, "lines 221-300 (read on with start_line 221)"),
        (PLAIN, [(1, 100)], "Read", "{}", ""),
        ("one line " * 500, [], "Read", "{}", ""),
        (PLAIN, [], "Read", "not JSON", "lines 1-100"),
    ],
)
def test_omitted_lines_are_described(
    text: str, lines: list[tuple[int, int]], tool: str, arguments: str, expected: str
) -> None:
    assert describe_omitted_lines(text, visible_ranges(text, *lines), tool, arguments) == expected


def test_excerpt_of_newest_result_names_next_offset() -> None:
    text = "".join(f"{n:6}→def function_{n}(argument): return {n}\n" for n in range(1, 900))
    read = [user("read it"), *step("r", "Read", '{"file_path": "a.py"}', text)]
    _, messages = render(read, 6_000, "contextrender_cache_aware")
    opening = str(messages[-1]["content"]).partition("\n")[0]
    assert opening.startswith("[Excerpt: ")
    assert " (read on with offset " in opening
    assert opening.endswith("recall result 2 for all of it]")
