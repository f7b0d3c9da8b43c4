"""A selection as plain values, as the store keeps the last ones of a branch."""

from collections.abc import Mapping
from typing import Any

from contextrender_bridge.engine.plan.selection import (
    RestoredPart,
    RestoredText,
    Selection,
    Substitute,
    TextSelection,
)

Texts = Mapping[int, Substitute]


def to_json(selection: Selection) -> dict[str, Any]:
    """Return what is needed to go on from a selection, and to show it again."""
    return {
        "messages": selection.messages,
        "dropped": list(selection.text.dropped),
        "cut": _texts_to_json(selection.text.cut),
        "complete": list(selection.complete),
        "excerpts": _texts_to_json(selection.excerpts),
        "restored": [
            [host, [[part.result, part.text, part.tokens] for part in text.parts]]
            for host, text in selection.restored.items()
        ],
        "arguments": _texts_to_json(selection.arguments),
        "is_over": selection.is_over,
        "rebuilt": selection.rebuilt,
        "breakpoints": list(selection.breakpoints),
        "budget": selection.budget,
    }


def from_json(data: Mapping[str, Any]) -> Selection:
    """Return the selection of which `to_json` gave the values."""
    return Selection(
        data["messages"],
        TextSelection(tuple(data["dropped"]), _texts_from_json(data["cut"])),
        tuple(data["complete"]),
        _texts_from_json(data["excerpts"]),
        {
            host: RestoredText(tuple(RestoredPart(*part) for part in parts))
            for host, parts in data["restored"]
        },
        _texts_from_json(data["arguments"]),
        data["is_over"],
        data["rebuilt"],
        tuple(data["breakpoints"]),
        data["budget"],
    )


def _texts_to_json(texts: Texts) -> list[list[Any]]:
    return [[key, made.text, made.tokens, made.kind] for key, made in texts.items()]


def _texts_from_json(data: list[list[Any]]) -> dict[int, Substitute]:
    return {key: Substitute(text, tokens, kind) for key, text, tokens, kind in data}
