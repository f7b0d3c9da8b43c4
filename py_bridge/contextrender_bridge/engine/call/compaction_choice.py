"""The choice of messages for a compaction's text, and of the budget for its results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from contextrender_bridge.base.compaction_size import MIN_TOKENS
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.call_text import CAP, MAX_TEXT_BUDGET, TARGET
from contextrender_bridge.engine.plan.selection import unbudgeted_messages
from contextrender_bridge.engine.text.tokens import TokenCounter, content_text
from contextrender_bridge.engine.text.transcript import Json

WINDOW_SHARE: Final = 0.5
"""The largest share of a model's window that the text may have."""
USER_SHARE: Final = 0.4
ASSISTANT_SHARE: Final = 0.25
LIST_SHARE: Final = 0.08
"""The largest shares of the text that the user's messages, the assistant's messages and the list of
omitted results may have."""
LINE_TOKENS: Final = 30
"""An estimate of the tokens of a line in the list of omitted results."""
PART_TOKENS: Final = 12
"""An estimate of the tokens of a part's heading."""
OPENING_TOKENS: Final = 200
"""An estimate of the tokens of the text's first lines."""
MIN_RESULT_TOKENS: Final = 500
"""The smallest number of tokens that the renderer has for results."""


@dataclass(frozen=True, slots=True)
class MessageText:
    """The text of a message by the user or the assistant."""

    position: int
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class TextChoice:
    """The texts of messages that are shown, by position, and their size in tokens."""

    texts: Mapping[int, MessageText] = field(default_factory=dict)
    tokens: int = 0


def read_texts(history: History, messages: Sequence[Json]) -> list[MessageText]:
    """Return the texts of the user's and the assistant's messages, in order, without blank ones."""
    return [
        MessageText(position, history.roles[position], text)
        for position in history.text_messages
        if history.roles[position] in ("user", "assistant")
        and (text := content_text(messages[position].get("content"))).strip()
    ]


def budgeted_text_tokens(history: History) -> int:
    """Return the tokens of all messages' texts that count towards a renderer's budget."""
    unbudgeted = unbudgeted_messages(history, len(history))
    return history.text_totals[-1] - sum(history.text_tokens[p] for p in unbudgeted)


def limit_tokens(tokens: int, window: int) -> int:
    """Return the largest number of tokens that the text may have.

    `tokens` is the number that the request asks for. `window` is the model's context window in
    tokens, 0 if it is unknown.
    """
    if window:
        tokens = min(tokens, int(WINDOW_SHARE * window))
    return max(MIN_TOKENS, tokens)


def choose_texts(
    texts: Sequence[MessageText], limit: int, counter: TokenCounter, *, has_summary: bool
) -> TextChoice:
    """Return the texts that are shown in a compaction text of at most `limit` tokens.

    Choose the user's first message, then the user's newest messages, then the assistant's newest
    messages. With `has_summary`, the agent's own summary is in the compaction text, and no messages
    of the assistant are chosen.
    """
    user_texts = [text for text in texts if text.role == "user"]
    first_and_newest = [*user_texts[:1], *reversed(user_texts[1:])]
    by_user, user_tokens = choose_within(
        first_and_newest, int(USER_SHARE * limit), counter, cuts=True
    )
    if has_summary:  # the agent's own summary has the content of the assistant's texts
        return TextChoice(by_user, user_tokens)
    assistant_texts = [text for text in reversed(texts) if text.role == "assistant"]
    by_assistant, assistant_tokens = choose_within(
        assistant_texts, int(ASSISTANT_SHARE * limit), counter, cuts=False
    )
    return TextChoice({**by_user, **by_assistant}, user_tokens + assistant_tokens)


def choose_within(
    texts: Sequence[MessageText], limit: int, counter: TokenCounter, *, cuts: bool
) -> tuple[dict[int, MessageText], int]:
    """Return the first texts that fit `limit` tokens, by position, and their size in tokens.

    Without `cuts`, stop at the first text that does not fit. With `cuts`, leave out the middle of
    such a text, and stop when too few tokens remain.
    """
    max_cut_tokens = limit // 2  # so that one long message does not exclude all others
    by_position: dict[int, MessageText] = {}
    total = 0
    for text in texts:
        size = counter.text(text.text) + PART_TOKENS
        if total + size > limit:
            if not cuts:
                break
            # Cut the text to the remaining tokens. It becomes empty if they are too few.
            text_limit = min(limit - total, max_cut_tokens) - PART_TOKENS
            cut_text = cut_middle(text.text, text_limit, counter)
            if not cut_text:
                break
            text = replace(text, text=cut_text)
            size = counter.text(cut_text) + PART_TOKENS
        by_position[text.position] = text
        total += size
    return by_position, total


def cut_middle(text: str, limit: int, counter: TokenCounter) -> str:
    """Replace the middle of a text by a line, so that the text fits `limit` tokens.

    Return an empty text if the limit is too small.
    """
    if counter.text(text) <= limit:
        return text
    half = (limit - 2 * PART_TOKENS) // 2
    if half < PART_TOKENS:
        return ""
    head = counter.cut(text, half)
    # Cut the tail from the reversed text. In its own order it may have more tokens.
    tail = counter.cut(text[::-1], half)[::-1]
    while counter.text(tail) > half:
        tail = tail[len(tail) // 8 + 1 :]
    return f"{head}\n[… left out …]\n{tail}"


def choose_budget(
    limit: int, *, shown_text_tokens: int, budgeted_text_tokens: int, results: int
) -> int:
    """Return the budget with which to render, so that a compaction text has about `limit` tokens.

    The compaction text shows the results that the rendering selects. Its messages and the agent's
    summary have `shown_text_tokens`. It also has its first lines and a list of omitted results. In
    the rendering, the history's messages have `budgeted_text_tokens`. `results` is the number of
    results in the history.
    """
    # The tokens that are left for results, beside all other parts of the compaction text.
    list_tokens = min(int(LIST_SHARE * limit), LINE_TOKENS * results)
    result_tokens = limit - shown_text_tokens - list_tokens - OPENING_TOKENS
    return budget_beside_text(max(result_tokens, MIN_RESULT_TOKENS), budgeted_text_tokens)


def budget_beside_text(result_tokens: int, budgeted_text_tokens: int) -> int:
    """Return the budget with which the renderer has `result_tokens` left for results.

    The messages have `budgeted_text_tokens`. If they exceed the share `CAP` of the text budget, the
    renderer cuts them to the share `TARGET` of it.
    """
    budget = result_tokens + budgeted_text_tokens
    if budgeted_text_tokens <= CAP * min(budget, MAX_TEXT_BUDGET):
        return budget
    cut_text_tokens = TARGET * min(result_tokens / (1 - TARGET), MAX_TEXT_BUDGET)
    return int(result_tokens + cut_text_tokens)
