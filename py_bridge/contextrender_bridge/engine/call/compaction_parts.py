"""The parts of a compaction's text, read from a history: what was said, and the results."""

from collections.abc import Sequence

from contextrender_bridge.engine.call.compaction_choice import MessageText
from contextrender_bridge.engine.call.compaction_text import CompactedResult
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.selection import Selection, unbudgeted_messages
from contextrender_bridge.engine.text.tokens import arguments_of, content_text
from contextrender_bridge.engine.text.transcript import Json


def read_texts(history: History, messages: Sequence[Json]) -> list[MessageText]:
    """Return what the user and the assistant said, in order."""
    return [
        MessageText(position, history.roles[position], text)
        for position in history.text_messages
        if history.roles[position] in ("user", "assistant")
        and (text := content_text(messages[position].get("content"))).strip()
    ]


def budgeted_text_tokens(history: History) -> int:
    """Return the tokens of the messages of user and assistant that a renderer's budget includes."""
    free = unbudgeted_messages(history, len(history))
    return sum(history.text_tokens) - sum(history.text_tokens[position] for position in free)


def read_results(
    history: History, messages: Sequence[Json], selection: Selection
) -> list[CompactedResult]:
    """Return every result with its call, and the text by which a selection shows it."""
    complete = set(selection.complete)
    results: list[CompactedResult] = []
    for result, position in enumerate(history.results.message):
        message, call = history.call_of(result)
        excerpt = selection.excerpts.get(result)
        if result in complete:
            text = content_text(messages[position].get("content"))
        else:
            text = excerpt.text if excerpt else ""
        cut = selection.arguments.get(result)
        arguments = arguments_of(messages[message], call) if call >= 0 else ""
        results.append(
            CompactedResult(
                position,
                history.names.get(history.results.event[result]) or "a tool",
                cut.text if cut else arguments,
                history.results.tokens[result],
                text,
                result in complete,
            )
        )
    return results
