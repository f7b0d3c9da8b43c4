"""Verdicts as noted when a call was made, where today's rules would decide differently."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.call.explain import Row
from engine.call.rows import Standing
from engine.call.verdicts import Verdict

OTHERWISE: Final = "so it was when the call was made; today"
SENT_WHOLE: Final = "the whole history was sent; rendered,"


def as_noted(
    numbers: Sequence[int], rows: Sequence[Row], noted: Standing, today: Standing, *, whole: bool
) -> list[Row]:
    """The rows of these results with what was noted in place of what is recomputed.

    `whole`: the history was sent whole, and only the rendering would have left anything out.
    """
    differing = noted.differing(today)
    because = SENT_WHOLE if whole else OTHERWISE
    return [
        _told(row, number, noted, because) if number in differing else row
        for number, row in zip(numbers, rows, strict=True)
    ]


def differing_sentence(differing: int) -> str:
    """Shown for a call that today's rules would render otherwise."""
    results = "1 result" if differing == 1 else f"{differing:,} results"
    return f"Today's rules would show {results} otherwise than when this call was made."


def _told(row: Row, number: int, noted: Standing, because: str) -> Row:
    now = row.verdict
    then = "complete" if number in noted.complete else "omitted"
    if number in noted.replaced:
        then = "excerpt"
    reason = f"{because} it would be {now.shown}: {now.reason}"
    return replace(row, verdict=Verdict(then, None, reason))
