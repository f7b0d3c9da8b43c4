"""The closed loop on small runs: repeated calls, their order and their costs."""

from collections.abc import Sequence

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.billing import AnthropicCache, OpenAICache, Prompts
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import Case, cases_of
from contextrender_bridge.evaluation.closed_loop import replay_in_closed_loop
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import LoopScore, Prompt
from contextrender_bridge.evaluation.workers import replay_runs

from tests.support.transcripts import assistant, call, result, step, user

COUNTER = counter_for(None)


TASK = user("Find the owner and the badge.")
OWNER = result("a", "owner_id OWNER_A")
BADGE = result("b", "badge_no BADGE_7")
MESSAGES = [
    TASK,
    assistant("", call("a", "look", '{"of": "owner"}')),
    OWNER,
    assistant("", call("b", "look", '{"of": "badge"}')),
    BADGE,
    assistant("It is BADGE_7 of OWNER_A."),
]
RUN = Run("run", "", "", MESSAGES)


class Blind:
    """A policy that shows everything except the results at these positions."""

    def __init__(self, *hidden: int) -> None:
        self._hidden = hidden
        self.requests: list[list[Json]] = []

    def __call__(self, messages: Sequence[Json], times: Sequence[float]) -> Prompt:
        self.requests.append(list(messages))
        self.times = list(times)
        result_positions = {i for i, m in enumerate(messages) if m["role"] == "tool"} - {
            *self._hidden
        }
        visible_messages = [m for i, m in enumerate(messages) if i not in self._hidden]
        return Prompt(
            0,
            0,
            0,
            frozenset(result_positions),
            visible_messages,
            visible=frozenset(result_positions),
        )


def loop(policy: Blind, run: Run = RUN) -> LoopScore:
    return replay_in_closed_loop(run, policy, Prompts(COUNTER, run.tools))


def test_full_history_repeats_the_recorded_calls() -> None:
    blind = Blind()
    score = loop(blind)
    assert [len(history) for history in blind.requests] == [1, 3, 5]
    assert (score.steps, score.refetched, score.steps_with_misses) == (3, 0, 0)
    assert score.output == sum(COUNTER.message(MESSAGES[i]) for i in (1, 3, 5))
    openai, anthropic = OpenAICache(), AnthropicCache(has_quarter_breakpoints=False)
    for history in blind.requests:
        units = Prompts(COUNTER).units_of(history)
        openai.bill(units)
        anthropic.bill(units)
    full_tokens = sum(COUNTER.message(m) for history in blind.requests for m in history)
    assert score.bills["openai"].prompt == score.bills["anthropic_end"].prompt == full_tokens


def test_omitted_value_is_fetched_again_before_the_step() -> None:
    blind = Blind(2)  # omits OWNER, whose value OWNER_A the last step uses
    score = loop(blind)
    # Before the second step it is the newest result and omitted, so its call is repeated. The copy
    # stays visible, also for the last step.
    assert (score.steps, score.refetched, score.steps_with_misses) == (3, 1, 0)
    repeated_call, copy = blind.requests[-1][3:5]
    assert (
        repeated_call["tool_calls"][0]["function"]
        == call("", "look", '{"of": "owner"}')["function"]
    )
    assert copy["content"] == OWNER["content"]
    assert copy["tool_call_id"] == repeated_call["tool_calls"][0]["id"] not in ("a", "b")
    assert [len(history) for history in blind.requests] == [1, 3, 5, 7]
    output_messages = [MESSAGES[1], repeated_call, MESSAGES[3], MESSAGES[5]]
    assert score.output == sum(map(COUNTER.message, output_messages))


class Forgetful(Blind):
    """A policy that shows only the newest result."""

    def __call__(self, messages: Sequence[Json], times: Sequence[float]) -> Prompt:
        results = [i for i, m in enumerate(messages) if m["role"] == "tool"]
        self._hidden = tuple(results[:-1])
        return super().__call__(messages, times)


def test_result_is_fetched_at_most_once_per_step() -> None:
    blind = Forgetful()
    score = loop(blind)
    # The last step needs both values. BADGE_7 is visible; fetching OWNER_A hides it; fetching
    # BADGE_7 again hides OWNER_A, which was already fetched once.
    assert [len(history) for history in blind.requests] == [1, 3, 5, 7, 9]
    assert (score.steps, score.refetched, score.steps_with_misses) == (3, 2, 1)


def test_calls_needed_together_are_issued_together() -> None:
    message = assistant("", call("a", "look"), call("b", "look"))
    run = Run("both", "", "", [TASK, message, OWNER, BADGE, *MESSAGES[5:]])
    blind = Blind(2, 3)
    score = loop(blind, run)
    assert (score.steps, score.refetched, score.steps_with_misses) == (2, 2, 0)
    assert [len(history) for history in blind.requests] == [1, 4, 7]
    assert len(blind.requests[-1][4]["tool_calls"]) == 2


def long_run(name: str) -> Run:
    """Return a run whose last step uses its first result."""
    messages: list[Json] = [TASK]
    for turn in range(6):
        text = f"SERIAL_{turn} " + "filler " * 60
        messages += step(f"c{turn}", "look", f'{{"turn": {turn}}}', text, "")
    return Run(name, "", "", [*messages, assistant("It is SERIAL_0.")])


def test_policy_pays_for_repeated_calls() -> None:
    prune, full = replay_run(
        long_run("r"), [Case("prune", 200), Case("full", 200)], NoEmbedder(), closed_loop=True
    ).cases
    assert prune.loop is not None
    assert full.loop is not None
    assert (prune.loop.refetched, prune.loop.steps_with_misses) == (1, 0)
    assert prune.loop.bills["openai"].prompt > prune.bills["openai"].prompt
    assert (full.loop.refetched, full.loop.steps_with_misses) == (0, 0)
    assert full.loop.bills == full.bills
    assert full.loop.output == full.agent_usage.output


def test_closed_loop_figures_need_a_closed_loop_replay() -> None:
    runs = [long_run("one"), long_run("two")]
    cases = cases_of("prune,full", "200")
    bootstrap = Bootstrap(replay_runs(runs, cases, 1, closed_loop=True), 50)
    pruned, full = bootstrap.estimates(0), bootstrap.estimates(1)
    assert pruned["refetches"].value == pytest.approx(1 / 7)
    assert pruned["steps_without"].value == 0
    assert full["openai_loop"].value == full["anthropic_loop"].value == 1
    assert pruned["openai_loop"].value is not None
    open_only = replay_runs(runs, cases, 1)
    assert Bootstrap(open_only, 50).estimates(0)["openai_loop"].value is None
