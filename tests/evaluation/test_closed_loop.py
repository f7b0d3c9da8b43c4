"""The closed loop on runs worked by hand: what is fetched again, when, and what it costs."""

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
    """Shows everything but the results it is told to hide, by their places in the history."""

    def __init__(self, *hidden: int) -> None:
        self._hidden = hidden
        self.asked: list[list[Json]] = []

    def __call__(self, messages: Sequence[Json], times: Sequence[float]) -> Prompt:
        self.asked.append(list(messages))
        self.times = list(times)
        shown = {i for i, m in enumerate(messages) if m["role"] == "tool"} - {*self._hidden}
        seen = [m for i, m in enumerate(messages) if i not in self._hidden]
        return Prompt(0, 0, 0, frozenset(shown), seen, visible=frozenset(shown))


def loop(blind: Blind, run: Run = RUN) -> LoopScore:
    return replay_in_closed_loop(run, blind, Prompts(COUNTER, run.tools))


def test_an_agent_that_sees_everything_makes_the_recorded_calls() -> None:
    blind = Blind()
    score = loop(blind)
    assert [len(history) for history in blind.asked] == [1, 3, 5]
    assert (score.steps, score.refetched, score.steps_with_misses) == (3, 0, 0)
    assert score.output == sum(COUNTER.message(MESSAGES[i]) for i in (1, 3, 5))
    openai, anthropic = OpenAICache(), AnthropicCache(quarters=False)
    for history in blind.asked:
        units, _ = Prompts(COUNTER).send([], history)
        openai.bill(units)
        anthropic.bill(units)
    whole = sum(COUNTER.message(m) for history in blind.asked for m in history)
    assert score.bills["openai"].prompt == score.bills["anthropic_end"].prompt == whole


def test_a_value_out_of_view_is_fetched_again_before_the_step() -> None:
    blind = Blind(2)  # OWNER, of which the last step repeats OWNER_A, is the third message
    score = loop(blind)
    # Before the second step it is the newest result and unseen, so it is repeated there, and the
    # copy, in view from then on, serves the last step too.
    assert (score.steps, score.refetched, score.steps_with_misses) == (3, 1, 0)
    again, copy = blind.asked[-1][3:5]
    assert again["tool_calls"][0]["function"] == call("", "look", '{"of": "owner"}')["function"]
    assert copy["content"] == OWNER["content"]
    assert copy["tool_call_id"] == again["tool_calls"][0]["id"] not in ("a", "b")
    assert [len(history) for history in blind.asked] == [1, 3, 5, 7]
    spent = [MESSAGES[1], again, MESSAGES[3], MESSAGES[5]]
    assert score.output == sum(map(COUNTER.message, spent))


class Forgetful(Blind):
    """Shows the newest result alone."""

    def __call__(self, messages: Sequence[Json], times: Sequence[float]) -> Prompt:
        results = [i for i, m in enumerate(messages) if m["role"] == "tool"]
        self._hidden = tuple(results[:-1])
        return super().__call__(messages, times)


def test_each_result_is_fetched_at_most_once_a_step_and_then_the_step_goes_on() -> None:
    blind = Forgetful()
    score = loop(blind)
    # The last step needs both values. BADGE_7 is in view: OWNER_A is fetched, which hides
    # BADGE_7: that is fetched, which hides OWNER_A again, fetched already.
    assert [len(history) for history in blind.asked] == [1, 3, 5, 7, 9]
    assert (score.steps, score.refetched, score.steps_with_misses) == (3, 2, 1)


def test_calls_that_are_needed_together_are_issued_together() -> None:
    both = assistant("", call("a", "look"), call("b", "look"))
    run = Run("both", "", "", [TASK, both, OWNER, BADGE, *MESSAGES[5:]])
    blind = Blind(2, 3)
    score = loop(blind, run)
    assert (score.steps, score.refetched, score.steps_with_misses) == (2, 2, 0)
    assert [len(history) for history in blind.asked] == [1, 4, 7]
    assert len(blind.asked[-1][4]["tool_calls"]) == 2


def long_run(name: str) -> Run:
    """A run whose last step draws on its first result, long after."""
    messages: list[Json] = [TASK]
    for turn in range(6):
        text = f"SERIAL_{turn} " + "filler " * 60
        messages += step(f"c{turn}", "look", f'{{"turn": {turn}}}', text, "")
    return Run(name, "", "", [*messages, assistant("It is SERIAL_0.")])


def test_a_policy_that_hides_what_is_needed_pays_for_it() -> None:
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


def test_figures_of_the_closed_loop_are_there_only_when_it_was_replayed() -> None:
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
