"""Verdicts as they were when a call was made, where today's rules would come to others."""

from dataclasses import replace

from engine.call.explain import Row
from engine.call.facts import CallFact, numbers_in
from engine.call.verdicts import Verdict


def as_noted(rows: list[Row], fact: CallFact) -> tuple[list[Row], int]:
    """The rows with what was noted in place of what is recomputed, and how many differ.

    A call that was not sent as rendered showed everything, whatever was noted of its rendering.
    """
    complete, replaced = set(numbers_in(fact.shown)), set(numbers_in(fact.replaced))
    told, differing = [], 0
    for number, row in enumerate(rows):
        now = row.verdict
        if number in complete:
            then = "complete"
        elif number in replaced:
            then = now.shown if now.shown not in ("complete", "omitted") else "excerpt"
        else:
            then = "omitted"
        if then != now.shown:
            differing += 1
            reason = (
                f"so it was when the call was made; today it would be {now.shown}: {now.reason}"
            )
            row = replace(row, verdict=Verdict(then, None, reason))
        told.append(row)
    return told, differing


def differing_sentence(differing: int) -> str:
    """What people are told of a call that today's rules would render otherwise."""
    results = "1 result" if differing == 1 else f"{differing:,} results"
    return f"Today's rules would show {results} otherwise than when this call was made."
