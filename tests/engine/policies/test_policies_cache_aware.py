"""The cache-aware policy repeats and appends to the previous prompt and rebuilds it only when
needed.
"""

import itertools
import json
import re

import pytest
from contextrender_bridge.engine.call.explain import ResultRow, explain_results
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.parameters import NO_PINS, Parameters
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.text.transcript import Json

from tests.engine.policies.test_policies import agent_run, turns_of
from tests.support.strategies import COUNTER, DEFAULTS, decisions_of, render

POLICY = "contextrender_cache_aware"
WIDE = Parameters(rebuild_share=0.6)


def prompts(
    messages: list[Json], budget: int, parameters: Parameters = DEFAULTS
) -> list[tuple[list[Json], bool]]:
    history = History()
    prompts_with_rebuilds = []
    for size in turns_of(messages):
        history.extend(messages[len(history) : size], COUNTER)
        rendered, prompt = render(messages[:size], budget, POLICY, parameters, history=history)
        is_rebuilt = rendered.selection.rebuilt == size
        assert rendered.tokens_after <= budget
        prompts_with_rebuilds.append((prompt, is_rebuilt))
    return prompts_with_rebuilds


@pytest.mark.parametrize(
    ("budget", "parameters"), [(8_000, WIDE), (4_000, Parameters(rebuild_share=0.2))]
)
def test_prompts_repeat_previous_one_between_rebuilds(budget: int, parameters: Parameters) -> None:
    prompts_by_call = prompts(agent_run(60), budget, parameters)
    repeated_count = 0
    for (before, _), (now, is_rebuilt) in itertools.pairwise(prompts_by_call):
        if not is_rebuilt:
            assert json.dumps(now[: len(before)]) == json.dumps(before)
            repeated_count += 1
    assert repeated_count > len(prompts_by_call) / 3
    assert 1 < sum(is_rebuilt for _, is_rebuilt in prompts_by_call) < len(prompts_by_call) / 2


def test_selection_depends_on_last_answered_selection_only() -> None:
    messages = agent_run(30)
    live = History()
    selections: list[Selection] = []
    for size in turns_of(messages):
        live.extend(messages[len(live) : size], COUNTER)
        first, prompt = render(messages[:size], 1_500, POLICY, history=live)
        for last in selections[-1:]:
            restarted = History()
            restarted.extend(messages[:size], COUNTER)
            restarted.remember(repr((1_500, POLICY, DEFAULTS, False, NO_PINS)), last)
            repeated, shown_again = render(messages[:size], 1_500, POLICY, history=restarted)
            assert (decisions_of(first), prompt) == (decisions_of(repeated), shown_again)
        selections.append(first.selection)


def test_reasons_name_kept_and_new_results() -> None:
    messages = agent_run(40)
    reasons = set()
    sizes = turns_of(messages)
    for size in [*sizes[:3], *sizes[3::6]]:
        rendered, _ = render(messages[:size], 1_500, POLICY)
        rows = explain_results(rendered)
        restored = {
            rendered.context.history.results.message[n] for n in rendered.selection.restored_results
        }
        assert [row.decision.display == "omitted" for row in rows] == [
            row.position in rendered.omitted and row.position not in restored for row in rows
        ]
        reasons |= {
            (row.decision.display, re.sub(r"\d+", "N", row.decision.reason)) for row in rows
        }
        if rendered.selection.rebuilt:
            check_ranks(rows, rendered.selection.rebuilt, messages)
    assert {
        ("complete", "the whole history fits"),
        ("complete", "selected"),
        ("complete", "kept when the prompt was rebuilt at call N"),
        ("complete", "appended since the prompt was rebuilt at call N"),
        ("excerpt", "only the parts with values that are visible nowhere else"),
        ("omitted", "left out when the prompt was rebuilt at call N: ranked Nth, N fitted"),
    } <= reasons


def check_ranks(rows: list[ResultRow], rebuild_position: int, messages: list[Json]) -> None:
    """Assert that the reason of an omitted result has the call of the rebuild, its rank and the
    number of fitting results."""
    call = 1 + sum(message["role"] == "assistant" for message in messages[:rebuild_position])
    reasons = [row.decision.reason for row in rows if row.decision.display == "omitted"]
    fitted = sum(
        row.decision.display == "complete" and row.position < rebuild_position for row in rows
    )
    ranks = []
    for reason in reasons:
        assert f"rebuilt at call {call}" in reason
        if match := re.search(r"ranked (\d+)\w\w, (\d+) fitted", reason):
            assert int(match[2]) == fitted < int(match[1])
            ranks.append(int(match[1]))
    assert len(ranks) == len(set(ranks))
