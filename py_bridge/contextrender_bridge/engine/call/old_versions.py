"""The uses of old versions of files: answers that used lines which an earlier edit had replaced."""

from contextrender_bridge.engine.call.missing_results import values_used, without_visible
from contextrender_bridge.engine.history.file_versions import FileEdit, replaced_ranges
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import TextsOf


def old_versions_used(history: History, message: int, texts_of: TextsOf) -> dict[int, int]:
    """Map each result whose outdated lines a message used to the turn of the first edit after it.

    The edits of the result's file between the result and the message count. A message used outdated
    lines if it used a value of the result that is only in lines that these edits replaced, and in
    no newer result of the file.
    """
    edit_turns: dict[int, int] = {}
    positions = history.results.message
    for result, values in values_used(history, message).items():
        edits = history.edits_since(result, message)
        if not edits:
            continue
        newer = history.files.newer_results(result, history.results_before(message))
        text, *newer_texts = texts_of([positions[version] for version in (result, *newer)])
        unchanged_text = _text_without_replaced_lines(text, edits)
        outdated_values = without_visible(values, [unchanged_text, *newer_texts])
        if outdated_values:
            edit_turns[result] = history.turns[edits[0].position]
    return edit_turns


def _text_without_replaced_lines(text: str, edits: list[FileEdit]) -> str:
    """Return a file's text without the lines that the edits have replaced."""
    unchanged_text, end = "", 0
    for start, stop in replaced_ranges(text, edits, is_file=True):
        unchanged_text += text[end:start]
        end = stop
    return unchanged_text + text[end:]
