"""A replay as for a live agent: its newest results are in view, and pauses end caches."""

import pytest

from engine.models.embeddings import NoEmbedder
from engine.text.transcript import Json
from evaluation.cases import Case, cases_of
from evaluation.in_process import replay_run
from evaluation.runs import Run
from evaluation.scores import Prompt, Turn
from tests.engine.plan.test_filling import write
from tests.engine.policies.test_policies import IN_PARTS, agent_run, turns_of

WRITTEN = [*agent_run(8), *write(5_200), {"role": "assistant", "content": "Done."}]


def last_prompt(policy: str, messages: list[Json], times: list[float] | None = None) -> list[Json]:
    """What a replay shows before the last recorded answer; of a closed loop, too."""
    prompts: list[list[Json]] = []

    def watch(_: Case, turn: Turn, prompt: Prompt) -> None:
        prompts.append([dict(message) for message in prompt.messages])

    run = Run("run", "", "", messages, times=times or [])
    score = replay_run(run, cases_of(policy, "6000"), NoEmbedder(), watch, closed_loop=True)
    assert score.cases[0].loop
    return prompts[-1]


def test_a_policy_that_hides_the_newest_step_shows_it_to_a_live_agent() -> None:
    assert last_prompt("prune", WRITTEN)[-1] != WRITTEN[-2]
    assert last_prompt("prune:live=1", WRITTEN)[-1] == WRITTEN[-2]


@pytest.mark.parametrize("policy", IN_PARTS)
def test_our_own_policies_show_it_to_anyone(policy: str) -> None:
    assert last_prompt(policy, WRITTEN) == last_prompt(f"{policy}:live=1", WRITTEN)
    assert last_prompt(policy, WRITTEN)[-1] == WRITTEN[-2]


@pytest.mark.slow
def test_after_a_pause_that_no_cache_outlives_all_is_selected_anew() -> None:
    messages = agent_run(60)
    size = turns_of(messages)[-1]
    messages = [*messages[:size], {"role": "assistant", "content": "Done."}]
    pauses = [
        last_prompt("contextrender_frozen", messages, [0.0] * (size - 2) + 3 * [pause])
        for pause in (0.0, 60.0, 7_200.0)
    ]
    assert pauses[0] == pauses[1] != pauses[2]
