"""Tracking cut off one that has followed more is the one that had followed no further."""

from typing import Any

import numpy as np
from hypothesis import given, settings

from engine.history.history import History
from engine.history.tracking import Tracking
from engine.history.tracking_then import RememberingTracking
from engine.text.tokens import counter_for
from engine.text.transcript import Json
from tests.console.transcripts import make_run
from tests.support.strategies import transcripts

COUNTER = counter_for(None)
ARRAYS = (
    "introduced",
    "uses",
    "last_use",
    "answered",
    "first_segment",
    "segment_end",
    "segment_tokens",
    "segment_result",
)


def told(tracking: Tracking, names: dict[str, int]) -> dict[str, Any]:
    """All that a policy may ask of it, tokens by name: their numbers are in no certain order."""
    names = {token: number for token, number in names.items() if number < tracking.tokens}
    name_of = {number: token for token, number in names.items()}
    weights = tracking.kinds.weights(tracking.used.values) if names else ()

    def named(numbers: Any) -> list[str]:
        return sorted(name_of[int(number)] for number in numbers)

    events = np.zeros(tracking.events, np.bool_)
    events[::2] = True
    return {
        **{name: getattr(tracking, name).values.tolist() for name in ARRAYS},
        "words": (tracking.task, tracking.question, tracking.latest),
        "used": named(np.flatnonzero(tracking.used.values)),
        "weights": sorted((name_of[n], float(w)) for n, w in enumerate(weights)),
        "events": [named(tracking.ids_of_event(event)) for event in range(tracking.events)],
        "every other": named(np.flatnonzero(tracking.tokens_of_events(events))),
        "segments": [
            named(tracking.ids_of_segment(segment)) for segment in range(len(tracking.segment_end))
        ],
        "matches": [found.tolist() for found in tracking.words.match(tracking.latest)],
        "known": named(tracking.known("ORD_123456 and " + " ".join(names))),
    }


def compare(messages: list[Json], sizes: list[int]) -> None:
    whole = History()
    whole.extend(messages, COUNTER)

    def originals(start: int, stop: int) -> list[Json]:
        return messages[start:stop]

    followed = RememberingTracking()
    for size in sizes:
        found, then = followed.at(whole, size, originals, COUNTER), Tracking()
        then.catch_up(whole, size, originals, COUNTER)
        assert told(found, followed._ids) == told(then, then._ids)


@settings(max_examples=30, deadline=None)
@given(transcripts())
def test_it_knows_what_was_known_then(messages: list[Json]) -> None:
    compare(messages, [*range(0, len(messages) + 1, 2), *range(len(messages), -1, -1)])


def test_of_a_run_that_uses_what_it_found() -> None:
    run = make_run(60, 4)
    compare(run, [len(run) // 2, len(run), *range(5, len(run), 17)])
