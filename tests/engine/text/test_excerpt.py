"""Excerpts stay within their limit, name every gap, and keep head, tail and values."""

import re
from collections.abc import Iterator

import pytest
from contextrender_bridge.engine.text.excerpt import excerpt
from hypothesis import given
from hypothesis import strategies as st

from tests.support.growth import grows_in_proportion
from tests.support.strategies import COUNTER, VALUES, modest, texts

GAP = re.compile(r"\n\[… (\d+) characters left out …\]\n")

many_lines = st.lists(
    st.one_of(
        st.sampled_from(["", "plain words here", "{" * 90, "word " * 120, "é中😀" * 30]),
        st.sampled_from(VALUES).map(lambda value: f"row with {value} in it"),
    ),
    max_size=60,
).map("\n".join)
long_texts = st.one_of(texts(), many_lines)


def excerpt_pieces(text: str, excerpt_text: str) -> Iterator[tuple[int, str]]:
    """Yield each piece of an excerpt with its offset in the text; assert the sizes of the gaps."""
    at = 0
    for index, part in enumerate(GAP.split(excerpt_text)):
        if index % 2:
            assert int(part) > 0
            at += int(part)
        else:
            assert text[at : at + len(part)] == part
            yield at, part
            at += len(part)
    assert at == len(text)


@given(long_texts, st.integers(0, 3))
@modest
def test_text_within_limit_is_unchanged(text: str, spare: int) -> None:
    assert excerpt(text, COUNTER.text(text) + spare, COUNTER) == text


@given(long_texts, st.integers(-5, 400))
@modest
def test_excerpt_has_marked_gaps_within_limit(text: str, limit: int) -> None:
    excerpt_text = excerpt(text, limit, COUNTER, {"order_17", "tr_solo"})
    assert COUNTER.text(excerpt_text) <= max(0, limit)
    if GAP.search(excerpt_text):
        assert list(excerpt_pieces(text, excerpt_text))
    else:
        assert text.startswith(excerpt_text)


@given(many_lines, st.integers(150, 400))
@modest
def test_head_and_tail_are_kept(text: str, limit: int) -> None:
    pieces = list(excerpt_pieces(text, excerpt(text, limit, COUNTER)))
    lines = text.splitlines(keepends=True) or [""]
    first, last = lines[0], lines[-1]
    for line, has_line in ((first, pieces[0][1].startswith), (last, pieces[-1][1].endswith)):
        if len(pieces) > 1 and COUNTER.text(line) < limit // 4 and len(line) < 240:
            assert has_line(line)


def test_lines_with_wanted_values_are_kept() -> None:
    limit = 250
    text = "\n".join(f"entry {n}: value_{n:05} and more" for n in range(2_000))
    excerpt_text = excerpt(text, limit, COUNTER, {"value_01234", "value_00777", "nowhere_1"})
    assert excerpt_text.startswith("entry 0:")
    assert excerpt_text.endswith("entry 1999: value_01999 and more")
    first, second = "entry 777: value_00777 and more\n", "entry 1234: value_01234 and more\n"
    assert 0 < excerpt_text.index(first) < excerpt_text.index(second)
    assert COUNTER.text(excerpt_text) > limit * 0.6


def test_pieces_with_most_values_come_first() -> None:
    lines = [f"filler line number {n} says nothing of note" for n in range(400)]
    lines[100] = "one a_value here"
    lines[200] = "both a_value and b_value here"
    lines[300] = "one b_value here"
    excerpt_text = excerpt("\n".join(lines), 150, COUNTER, {"a_value", "b_value"})
    assert "both a_value and b_value here" in excerpt_text
    assert "one b_value here" not in excerpt_text


@pytest.mark.parametrize("line", ["x", "\n", "item_1 item_2\n"])
def test_excerpt_time_is_linear(line: str) -> None:
    values = {f"item_{n}" for n in range(1_000)}

    def make_excerpt(size: int) -> None:
        text = excerpt(line * (size // len(line)), 1_500, COUNTER, values)
        assert COUNTER.text(text) <= 1_500

    assert grows_in_proportion(make_excerpt, 50_000)
