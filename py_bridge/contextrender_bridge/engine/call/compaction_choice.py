"""The parts of a compaction's text: messages of user and assistant, and tokens for results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from contextrender_bridge.base.compaction_size import MIN_TOKENS
from contextrender_bridge.engine.plan.call_text import CAP, TARGET
from contextrender_bridge.engine.text.tokens import TokenCounter

WINDOW_SHARE: Final = 0.5
"""The largest share of a model's window that the text may have."""
USER_SHARE: Final = 0.4
ASSISTANT_SHARE: Final = 0.25
LIST_SHARE: Final = 0.08
"""The largest shares of the text that the user's messages, the assistant's messages and the list of
omitted results may have."""
LINE_TOKENS: Final = 30
PART_TOKENS: Final = 12
"""The tokens of a part's heading, about."""
OPENING_TOKENS: Final = 200
"""The tokens of the text's first lines, about."""
MIN_RESULT_TOKENS: Final = 500
"""The least tokens that the renderer has for results."""


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


def limit_tokens(tokens: int, window: int) -> int:
    """Return the most tokens that the text may have; `window` is the model's, 0 if unknown."""
    return max(MIN_TOKENS, min(tokens, int(WINDOW_SHARE * window) if window else tokens))


def choose_texts(
    texts: Sequence[MessageText], limit: int, counter: TokenCounter, *, has_summary: bool
) -> TextChoice:
    """Return the texts that are shown in a compaction text of at most `limit` tokens.

    The user's first message is chosen first, then the newest ones. A user's message that does not
    fit is cut in the middle. If there is a summary by the agent, the assistant's texts are left
    out, because the summary has their content.
    """
    user_texts = [text for text in texts if text.role == "user"]
    by_user, user_tokens = choose_within(
        [*user_texts[:1], *reversed(user_texts[1:])], int(USER_SHARE * limit), counter, cuts=True
    )
    if has_summary:
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

    The first text that does not fit ends the choice. If `cuts` is true, such texts are cut in the
    middle instead, until too few tokens remain. A cut text has at most half of the limit, so that
    one long message does not exclude all others.
    """
    max_cut_tokens = limit // 2
    by_position: dict[int, MessageText] = {}
    total = 0
    for text in texts:
        size = counter.text(text.text) + PART_TOKENS
        if total + size > limit:
            if not cuts:
                break
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
    """Return a text's head and tail within `limit` tokens; empty if that is too little.

    Head and tail have half of the limit each, without the tokens of the line between them. The tail
    is cut from the reversed text. In its own order it may have more tokens, so it is shortened by
    an eighth until it fits.
    """
    if counter.text(text) <= limit:
        return text
    half = (limit - 2 * PART_TOKENS) // 2
    if half < PART_TOKENS:
        return ""
    head, tail = counter.cut(text, half), counter.cut(text[::-1], half)[::-1]
    while counter.text(tail) > half:
        tail = tail[len(tail) // 8 + 1 :]
    return f"{head}\n[… left out …]\n{tail}"


def choose_budget(
    limit: int, *, shown_text_tokens: int, budgeted_text_tokens: int, results: int
) -> int:
    """Return the budget with which to render, so that a compaction text has about `limit` tokens.

    The results of the rendering become part of the text. The other parts are its first lines, the
    list of omitted results, and `shown_text_tokens` of messages and of the agent's summary. The
    renderer's budget also includes `budgeted_text_tokens` of the history's messages. `results` is
    the number of results in the history.
    """
    list_tokens = min(int(LIST_SHARE * limit), LINE_TOKENS * results)
    result_tokens = limit - shown_text_tokens - list_tokens - OPENING_TOKENS
    return budget_beside_text(max(result_tokens, MIN_RESULT_TOKENS), budgeted_text_tokens)


def budget_beside_text(result_tokens: int, budgeted_text_tokens: int) -> int:
    """Return the renderer's budget that leaves `result_tokens` for results beside the messages.

    The renderer keeps the messages up to `CAP` of its budget, and otherwise cuts them to `TARGET`.
    """
    budget = result_tokens + budgeted_text_tokens
    is_cut = budgeted_text_tokens > CAP * budget
    if not is_cut:
        return budget
    return int(result_tokens / (1 - TARGET))  # the texts then have TARGET of the budget
