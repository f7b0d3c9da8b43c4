"""Calls told from their facts: as rendering them anew tells them, with next to no rendering."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from engine.call.called import Called
from engine.call.facts import Caller, fact_of
from engine.call.request import RenderSettings
from engine.lookback.kept import SteppedPast
from engine.models.embeddings import load_embedder
from tests.console.transcripts import make_run
from tests.engine.test_past import COUNTER, FOREVER, past_of, stored


def noted_past(run: list[Any], settings: RenderSettings) -> tuple[SteppedPast, SteppedPast]:
    """The same calls: rendered one by one, and with what each showed stored with its answer."""
    made, rows = past_of(run), stored(run)
    for turn in range(1, len(made.invocations) + 1):
        messages = made.messages_before(turn)
        assert messages is not None
        rendered = made.render(made.history_before(messages), settings)
        fact = fact_of(rendered, settings, 0, 0, Caller())
        head = next(row for row in rows if row["position"] == messages)
        head["call"] = fact.to_json()
    told = SteppedPast(load_embedder("wordllama"), COUNTER)
    told.extend(rows, 0)
    return made, told


@pytest.mark.parametrize(
    ("policy", "budget"),
    [("contextrender", 900), ("prune", 900), ("contextrender_plus", 900), ("contextrender", 250)],
)
def test_a_noted_call_is_told_as_it_was(policy: str, budget: int) -> None:
    settings = RenderSettings(budget=budget, policy=policy)
    made, told = noted_past(make_run(40, 2), settings)
    (steps,) = made.steps.up_to([Called(settings)], made.turns, FOREVER)
    lacking = 0
    for step in steps:
        other = told.call_before(step.turn, Called(settings), FOREVER)
        assert other is not None
        usage = (other.usage.prompt, other.usage.output)
        assert usage == (step.usage.prompt, step.usage.output)
        assert replace(other, usage=step.usage) == step
        lacking += bool(step.missed)
    assert lacking


def test_few_noted_calls_are_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = RenderSettings(budget=1500)
    _, told = noted_past(make_run(60, 3), settings)
    render = Mock(wraps=told.render)
    monkeypatch.setattr(told, "render", render)
    for turn in range(told.turns, 0, -1):
        assert told.call_before(turn, Called(settings), FOREVER)
    assert render.call_count <= told.turns / 10


def test_a_call_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = RenderSettings(budget=900, policy="prune")
    _, told = noted_past(make_run(30, 2), settings)
    called = Called(settings)
    known = [told.call_before(turn, called, FOREVER) for turn in range(1, told.turns)]
    again = [told.call_before(turn, called, FOREVER) for turn in range(1, told.turns)]
    assert all(one is two for one, two in zip(known, again, strict=True))
    lacking = next(step for step in known if step and step.missed)
    why = told.misses_at(lacking, called)
    assert [miss.lack for miss in why] == list(lacking.missed)
    monkeypatch.setattr(told, "render", None)
    assert told.misses_at(lacking, called) is why
