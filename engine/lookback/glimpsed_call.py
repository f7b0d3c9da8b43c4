"""One noted call, and the messages right before it, from these events alone.

What a fact does not tell is left open: why a result was shown or not, and the words of an excerpt.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from engine.call.facts import CallFact
from engine.call.rows import Standing
from engine.history.stored import Fields, kind_of
from engine.lookback.outline import (
    OMITTED_CHARACTERS,
    SHOWN_CHARACTERS,
    Call,
    OutlineLine,
    beginning,
)


def noted_lines(events: Sequence[Fields], fact: CallFact) -> list[OutlineLine]:
    """The last messages before a call, each as far as its fact tells what was shown of it.

    `events` are the last ones before the call; the beginning of a message that lacks its first
    one is left out.
    """
    messages = list(_whole_messages(events))
    states = _states(messages, fact)
    answers = {
        message[0]["call_id"]: message[0]["position"] for message in messages if _is_result(message)
    }
    kept, outside = _kept_texts(messages, fact)
    return [_line(message, states, answers, kept, outside) for message in messages]


def _whole_messages(events: Iterable[Fields]) -> Iterator[list[Fields]]:
    for _, group in groupby(events, key=lambda fields: fields["position"]):
        message = list(group)
        if kind_of(message[0]) != "call":
            yield message


def _is_result(message: Sequence[Fields]) -> bool:
    return kind_of(message[0]) == "result"


def _states(messages: Sequence[Sequence[Fields]], fact: CallFact) -> dict[int, str]:
    """How each result among them stood, by position: the last of them is the last there was."""
    standing = Standing.noted(fact)
    results = [message[0]["position"] for message in messages if _is_result(message)]
    found = {}
    for number, position in enumerate(results, fact.results - len(results)):
        shown = "whole" if number in standing.complete else "omitted"
        found[position] = "excerpt" if number in standing.replaced else shown
    return found


def _kept_texts(
    messages: Sequence[Sequence[Fields]], fact: CallFact
) -> tuple[set[int], frozenset[int]]:
    """The texts in view, as many of the newest as the fact has tokens for; those beside the budget.

    Whole oldest turns leave first (`engine/plan/retained.py`).
    """
    heads = [message[0] for message in messages]
    users = [head["position"] for head in heads if kind_of(head) == "user"]
    leading = {head["position"] for head in heads if kind_of(head) == "system"}
    outside = frozenset([*leading, *users[-1:]])
    kept, left = set(outside), fact.retained
    for head in reversed(heads):
        if kind_of(head) == "result" or head["position"] in outside:
            continue
        left -= head["tokens"]
        if left < 0:
            break
        kept.add(head["position"])
    return kept, outside


def _line(
    message: Sequence[Fields],
    states: dict[int, str],
    answers: dict[str, int],
    kept: set[int],
    outside: frozenset[int],
) -> OutlineLine:
    head, *rest = message
    position = head["position"]
    calls = [_call(fields, answers.get(fields["call_id"]), states) for fields in rest]
    speaks = bool(head["tokens"]) or not rest
    stands = (speaks and position in kept) or any(call.shown for call in calls)
    shown = states.get(position, "whole" if stands else "omitted")
    limit = OMITTED_CHARACTERS if shown == "omitted" else SHOWN_CHARACTERS
    text, whole = ("", False) if shown == "excerpt" else beginning(head["text"], limit)
    return OutlineLine(
        position,
        "tool" if position in states else head["role"],
        head.get("name", ""),
        head["turn"],
        head["tokens"],
        shown,
        position in outside,
        text,
        whole,
        calls,
    )


def _call(fields: Fields, result: int | None, states: dict[int, str]) -> Call:
    text, whole = beginning(fields["text"], OMITTED_CHARACTERS * 4)
    shown = result is not None and states[result] != "omitted"
    return Call(fields["name"], fields["tokens"], text, whole, result, shown)
