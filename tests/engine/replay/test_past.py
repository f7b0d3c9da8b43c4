"""Replayed calls equal separate renderings of each prefix."""

from dataclasses import replace
from functools import reduce

import pytest
from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.engine.call.render_call import render_call
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay.cost_comparison import cost_curve
from contextrender_bridge.engine.replay.replay_cache import CachedReplay
from contextrender_bridge.engine.replay.replayed_calls import ReplayedCall
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.engine.text.transcript import Json

from tests.console.transcripts import make_run
from tests.support.strategies import reader, stored_fields
from tests.support.transcripts import numbers_in

COUNTER = counter_for(None)
SETTINGS = RenderSettings(budget=1500)
FOREVER = float("inf")


def past_of(messages: list[Json]) -> CachedReplay:
    past = CachedReplay(load_embedder("wordllama"), COUNTER)
    past.extend(stored_fields(messages, {}), 0)
    return past


def steps(past: CachedReplay) -> list[ReplayedCall]:
    (replayed_calls,) = past.replays.up_to([SettingsByTurn(SETTINGS)], past.turns, FOREVER)
    return replayed_calls


def test_replayed_call_equals_rendering_of_its_prefix() -> None:
    run = make_run(24, 4)[:-1]
    replayed_calls = steps(past_of(run))
    history = History()
    positions = [p for p, message in enumerate(run) if message["role"] == "assistant"] + [len(run)]
    assert len(replayed_calls) == len(positions)
    for step, position in zip(replayed_calls, positions, strict=True):
        history.extend(run[len(history) : position], COUNTER)
        rendered = render_call(
            history,
            budget=SETTINGS.budget,
            policy=policy_named(SETTINGS.policy),
            parameters=SETTINGS.parameters,
            counter=COUNTER,
            embedder=lambda: load_embedder("wordllama"),
            texts_of=reader(run),
        )
        assert list(numbers_in(step.complete)) == sorted(rendered.selection.complete)
        assert list(numbers_in(step.partial)) == sorted(rendered.selection.excerpts)
        assert (step.tokens_before, step.tokens_after) == (
            rendered.tokens_before,
            rendered.tokens_after,
        )
        assert step.messages == position and step.results == len(history.results)
        assert (
            step.usage.cache_read <= step.usage.prompt == step.tokens_after + step.unbudgeted_tokens
        )
    assert replayed_calls[-1].tokens_before > SETTINGS.budget


def test_costs_use_the_price_of_each_calls_model() -> None:
    prices = Prices.of(["dear:input=2,cached=0.5,output=8", "cheap:input=1,cached=1,output=0"])
    replayed_calls = steps(past_of(make_run(24, 4)))
    steps_of_two_models = [
        replace(step, model="cheap" if step.turn % 2 else "") for step in replayed_calls
    ]
    curve = cost_curve(steps_of_two_models, prices, "dear")
    cheap, dear = (
        reduce(Usage.plus, (step.usage for step in replayed_calls if step.turn % 2 == odd))
        for odd in (1, 0)
    )
    uncached = dear.prompt - dear.cache_read
    expected = (cheap.prompt + 2 * uncached + 0.5 * dear.cache_read + 8 * dear.output) / 1e6
    assert curve.cost[-1] == pytest.approx(expected)
    assert list(curve.cost) == sorted(curve.cost) and curve.calls_without_price == 0
    without = cost_curve(steps_of_two_models, prices)
    assert without.calls_without_price == len(
        [step for step in replayed_calls if step.turn % 2 == 0]
    )
    assert without.cost[-1] == pytest.approx(cheap.prompt / 1e6)
    assert list(cost_curve([], prices).cost) == []


def test_full_history_is_capped_at_model_window() -> None:
    calls = [replace(step, model="gpt-4") for step in steps(past_of(make_run(24, 4)))]
    large = [replace(step, full_usage=Usage.of_prompt(1_000_000, 900_000, 10)) for step in calls]
    assert cost_curve(large, Prices.of()).full_prompts == [window_of("gpt-4")] * len(calls)
