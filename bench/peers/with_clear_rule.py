"""Anthropic's `clear_tool_uses_20250919`, as its documentation states the rule; no library has it.

Past the trigger (here the budget) every result but the `keep` newest is replaced by a placeholder,
calls stay. The variant "fitted" keeps as many of the newest as fit the budget instead of 3.
"""

from engine.text.tokens import counter_for

KEEP = 3
PLACEHOLDER = "[tool result cleared]"


def make(variant):
    counter = counter_for(None)

    def shorten(messages, tokens):
        sizes = [counter.message(message) for message in messages]
        results = [i for i, message in enumerate(messages) if message["role"] == "tool"]
        stub = counter.message({"content": PLACEHOLDER})
        keep = KEEP
        if variant == "fitted":
            keep = _fitting([sizes[i] - stub for i in results], tokens - sum(sizes))
        cleared = set(results[: max(len(results) - keep, 0)])
        return [
            {**message, "content": PLACEHOLDER} if i in cleared else message
            for i, message in enumerate(messages)
        ]

    return shorten


def _fitting(gains, room):
    """How many of the newest stay when the oldest are cleared until `room` is not negative."""
    cleared = 0
    while room < 0 and cleared < len(gains):
        room += gains[cleared]
        cleared += 1
    return len(gains) - cleared
