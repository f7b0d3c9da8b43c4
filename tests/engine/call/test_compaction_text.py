"""The text of a compaction: its messages, omitted results and size."""

import pytest
from contextrender_bridge.base.compaction_mark import LAST_LINE, CompactedBranch, find_compaction
from contextrender_bridge.base.compaction_size import MIN_TOKENS
from contextrender_bridge.engine.call.compaction_choice import (
    MessageText,
    choose_budget,
    choose_texts,
    cut_middle,
    limit_tokens,
)
from contextrender_bridge.engine.call.compaction_text import (
    CompactedResult,
    CompactionText,
    write_compaction,
)
from contextrender_bridge.engine.text.tokens import counter_for
from hypothesis import given
from hypothesis import strategies as st

COUNTER = counter_for(None)
BRANCH = CompactedBranch(0, 9, "0a1b2c3d4e5f")
CODE = "0a1b2c3d"
LIMIT = 4_000


def words(count: int, name: str = "w") -> str:
    return " ".join(f"{name}{number}" for number in range(count))


def compaction_of(
    messages: list[MessageText],
    results: list[CompactedResult],
    limit: int = LIMIT,
    summary: str = "",
) -> CompactionText:
    texts = choose_texts(messages, limit, COUNTER, has_summary=bool(summary))
    return write_compaction(BRANCH, texts, results, limit, COUNTER, summary)


def test_messages_and_results_are_in_history_order() -> None:
    messages = [
        MessageText(0, "user", "Find ORD-1."),
        MessageText(1, "assistant", "I look it up."),
        MessageText(5, "user", "And ORD-2?"),
    ]
    results = [
        CompactedResult(2, "get", '{"id": 1}', 5, "order 1 is late", is_complete=True),
        CompactedResult(3, "list", '{"page":\n 1}', 2_345),
        CompactedResult(4, "get", '{"id": 3}', 50, "[Excerpt: 40 of 50 …]\nclerk_3"),
    ]
    compaction = compaction_of(messages, results)
    assert compaction.text.startswith(BRANCH.first_line) and compaction.text.endswith(LAST_LINE)
    order = [
        f"[{CODE} user]\nFind ORD-1.",
        f"[{CODE} assistant]\nI look it up.",
        f'[{CODE} result 2: get {{"id": 1}}]\norder 1 is late',
        '- Result 3 is omitted: list {"page": 1} (2,345 tokens)',
        f'[{CODE} part of result 4: get {{"id": 3}}]\n[Excerpt: 40 of 50 …]\nclerk_3',
        f"[{CODE} user]\nAnd ORD-2?",
    ]
    places = [compaction.text.index(part) for part in order]
    assert places == sorted(places)
    assert (compaction.complete, compaction.excerpts) == ((2,), (4,))
    assert compaction.tokens == COUNTER.text(compaction.text)


def test_first_and_newest_user_messages_are_kept() -> None:
    messages = [MessageText(n, "user", words(300, f"m{n}_")) for n in range(9)]
    compaction = compaction_of(messages, [])
    shown_numbers = [n for n in range(9) if f"m{n}_299" in compaction.text]
    assert shown_numbers[0] == 0 and shown_numbers[-1] == 8
    assert len(shown_numbers) < 9 and shown_numbers[1:] == list(
        range(9 - len(shown_numbers) + 1, 9)
    )


def test_long_message_is_cut_in_the_middle() -> None:
    compaction = compaction_of([MessageText(0, "user", words(9_000))], [])
    assert (
        "w0 w1" in compaction.text and "w8999" in compaction.text and "left out" in compaction.text
    )
    assert compaction.tokens <= LIMIT


def test_assistant_texts_are_left_out_beside_a_summary() -> None:
    messages = [MessageText(n, "assistant", words(100, f"a{n}_")) for n in range(30)]
    compaction = compaction_of(messages, [])
    assert "a29_0" in compaction.text and "a0_0" not in compaction.text
    with_summary = compaction_of(messages, [], summary="All was read.")
    assert "a29_0" not in with_summary.text
    assert f"[{CODE} summary by the agent]\nAll was read." in with_summary.text


def test_excerpts_and_old_results_are_omitted_first() -> None:
    size = COUNTER.text(words(300, "r"))
    results = [
        CompactedResult(n, "read", "{}", size, words(300, "r"), is_complete=n % 2 == 0)
        for n in range(12)
    ]
    compaction = compaction_of([], results)
    assert compaction.tokens <= LIMIT
    assert (
        compaction.complete
        and list(compaction.complete)
        == [n for n in range(12) if n % 2 == 0][-len(compaction.complete) :]
    )
    assert not compaction.excerpts or len(compaction.complete) == 6
    for n in set(range(12)) - {*compaction.complete, *compaction.excerpts}:
        assert f"- Result {n} is omitted" in compaction.text


def test_older_omitted_results_share_a_line() -> None:
    results = [CompactedResult(n, "read" if n % 3 else "bash", "{}", 9) for n in range(400)]
    compaction = compaction_of([], results)
    assert "- Result 399 is omitted" in compaction.text and "- Result 0 is" not in compaction.text
    assert "older results are omitted, too (positions 0 to " in compaction.text
    assert compaction.tokens < 0.2 * LIMIT + 200


@pytest.mark.parametrize(
    ("tokens", "window", "limit"),
    [(32_000, 0, 32_000), (32_000, 200_000, 32_000), (32_000, 40_000, 20_000), (9_000, 1, 2_000)],
)
def test_limit_is_at_most_half_of_the_window(tokens: int, window: int, limit: int) -> None:
    assert limit_tokens(tokens, window) == limit


def test_budget_excludes_tokens_of_texts() -> None:
    budget = choose_budget(32_000, shown_text_tokens=300, budgeted_text_tokens=500, results=10)
    assert 32_000 - 1_500 < budget - 500 < 32_000
    smaller = choose_budget(32_000, shown_text_tokens=9_300, budgeted_text_tokens=500, results=10)
    assert smaller == budget - 9_000
    # If a history is mostly text, the policy cuts it to three tenths of its budget.
    cut = choose_budget(32_000, shown_text_tokens=300, budgeted_text_tokens=900_000, results=10)
    assert 0.65 < 31_000 / cut < 0.75


LETTERS = st.text(st.characters(codec="utf-8"), max_size=400)


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), LETTERS), max_size=30),
    st.lists(st.tuples(LETTERS, LETTERS, st.booleans()), max_size=30),
)
def test_text_never_exceeds_its_limit(
    texts: list[tuple[str, str]], result_rows: list[tuple[str, str, bool]]
) -> None:
    messages = [MessageText(2 * n, role, text * 5) for n, (role, text) in enumerate(texts)]
    results = [
        CompactedResult(2 * n + 1, "t", arguments, 9, text * 5, is_complete)
        for n, (arguments, text, is_complete) in enumerate(result_rows)
    ]
    compaction = compaction_of(messages, results, MIN_TOKENS)
    assert compaction.tokens <= MIN_TOKENS
    if "older results are omitted" not in compaction.text:
        assert all(f"esult {result.position}" in compaction.text for result in results)


@given(LETTERS, st.integers(0, 90))
def test_cut_text_never_exceeds_its_limit(text: str, room: int) -> None:
    assert COUNTER.text(cut_middle(text * 9, room, COUNTER)) <= room


@given(LETTERS, st.integers(0, 99), st.integers(0, 10**6))
def test_newest_compaction_in_a_text_is_found(other: str, number: int, messages: int) -> None:
    branch = CompactedBranch(number, messages, "0a1b2c")
    text = "\n".join([other, branch.first_line, "x", LAST_LINE])
    assert find_compaction(text) == (branch, "")
    assert find_compaction(f"{text}\n{other}") == (branch, other.strip())
    assert find_compaction(f"{compaction_of([], []).text}\n{text}") == (branch, "")
    assert find_compaction(f"> {branch.first_line}") is None
