"""A history cut off a whole one is the one that had grown no further."""

from typing import Any

import pytest
from hypothesis import given, settings

from engine.call.explain import explain_results
from engine.call.request import RenderSettings
from engine.history.earlier import RememberingReuse, earlier_history
from engine.history.history import History
from engine.lookback.kept import SteppedPast
from engine.models.embeddings import load_embedder
from engine.text.tokens import counter_for
from engine.text.transcript import Json
from tests.console.transcripts import make_run
from tests.engine.test_past import past_of
from tests.support.strategies import snapshot, transcripts

COUNTER = counter_for(None)
POLICIES = ["prune", "contextrender", "reuse_density", "contextrender_frozen"]


def known(history: History) -> dict[str, Any]:
    """What it knows, but for what only one that grows needs."""
    told = snapshot(history)
    return {name: told[name] for name in told if name not in ("unanswered", "text_bytes")}


def grown(messages: list[Json]) -> History:
    history = History()
    history.reuse = RememberingReuse()
    history.extend(messages, COUNTER)
    return history


@settings(max_examples=30)
@given(transcripts())
def test_it_knows_what_was_known_then(messages: list[Json]) -> None:
    whole = grown(messages)
    whole.reuse.scores()
    for size in range(len(messages) + 1):
        earlier, then = earlier_history(whole, size), grown(messages[:size])
        assert known(earlier) == known(then)
        for result in range(len(then.results)):
            assert earlier.reuse.used_values(result) == then.reuse.used_values(result)
        for use in then.reuse.uses:
            assert earlier.reuse.holders(use.values) == then.reuse.holders(use.values)


@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_rendered_and_explained_as_it_was_then(policy: str) -> None:
    run = make_run(24, 4)
    past = past_of(run)
    asked = RenderSettings(budget=1500, policy=policy)
    for messages in past.invocations[::-4]:
        alone = SteppedPast(load_embedder("wordllama"), COUNTER)
        alone.extend([row for rows in past._rows[:messages] for row in rows], 0)
        now = past.render(past.history_before(messages), asked)
        then = alone.render(alone.whole, asked)
        assert explain_results(now) == explain_results(then)
        assert (now.items, now.texts) == (then.items, then.texts)


def test_the_last_histories_asked_for_are_kept() -> None:
    past = past_of(make_run(24, 4))
    first = past.history_before(past.invocations[5])
    for turn in (9, 7):
        past.history_before(past.invocations[turn])
    assert past.history_before(past.invocations[5]) is first
    size = past.nbytes
    for turn in (9, 7, 3):
        past.history_before(past.invocations[turn])
    assert past.history_before(past.invocations[5]) is not first
    assert past.nbytes < 2 * size
