"""The parts of a compaction's text, read from a history: messages and results."""

from collections.abc import Sequence

from contextrender_bridge.engine.call.compaction_choice import MessageText
from contextrender_bridge.engine.call.compaction_text import CompactedResult
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.selection import Selection, unbudgeted_messages
from contextrender_bridge.engine.text.tokens import arguments_of, content_text
from contextrender_bridge.engine.text.transcript import Json


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
    return sum(history.text_tokens) - sum(history.text_tokens[p] for p in unbudgeted)


def read_results(
    history: History, messages: Sequence[Json], selection: Selection
) -> list[CompactedResult]:
    """Return every result with its call, and the text that a selection shows of the result.

    The text is empty if the selection omits the result. `messages` are the original messages.
    """
    complete = set(selection.complete)
    results: list[CompactedResult] = []
    for result, position in enumerate(history.results.message):
        message, call = history.call_of(result)  # `call` is -1 if the result has no call
        # The text that is shown: the complete result, an excerpt or nothing.
        excerpt = selection.excerpts.get(result)
        if result in complete:
            text = content_text(messages[position].get("content"))
        else:
            text = excerpt.text if excerpt else ""
        # The call's arguments, cut if the selection cuts them.
        if cut_arguments := selection.arguments.get(result):
            arguments = cut_arguments.text
        else:
            arguments = arguments_of(messages[message], call) if call >= 0 else ""
        results.append(
            CompactedResult(
                position,
                tool=history.names.get(history.results.event[result]) or "a tool",
                arguments=arguments,
                tokens=history.results.tokens[result],
                text=text,
                is_complete=result in complete,
            )
        )
    return results
