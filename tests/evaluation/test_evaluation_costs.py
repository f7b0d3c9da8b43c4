"""Costs of a replay, computed by hand."""

import numpy as np
import pytest
from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation import baselines
from contextrender_bridge.evaluation.baselines.summaries import SummaryFailed
from contextrender_bridge.evaluation.billing import Prompts, price_under
from contextrender_bridge.evaluation.cases import Case, cases_of
from contextrender_bridge.evaluation.figures import FIGURES, Sums, columns_of, with_derived
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import CaseScore, RunScore
from contextrender_bridge.evaluation.workers import replay_runs

from tests.support.transcripts import assistant, call, result, step, user


def score_of(agent_usage: Usage, full: Usage, policy_usage: Usage = NOTHING_USED) -> RunScore:
    """Return a run with one call that has only token counts."""
    case = CaseScore(Case("prune", 100), agent_usage=agent_usage, policy_usage=policy_usage)
    case.recall.add_invocation(200, 80, 100)
    return RunScore("run", "", "", [case], "", full)


def sums_over(*runs: RunScore) -> Sums:
    columns = [columns_of(run, run.cases[0]) for run in runs]
    return with_derived(
        {name: np.array(sum(column[name] for column in columns)) for name in columns[0]}
    )


def value(name: str, sums: Sums) -> float:
    (figure,) = (figure for figure in FIGURES if figure.name == name)
    return float(figure.of(sums))


def test_cost_formula_of_the_paper() -> None:
    # Full history: 1,000,000 prompt tokens, 800,000 of them cached, so rho is 0.8 and a prompt
    # token costs 2 * 0.2 + 0.5 * 0.8 = 0.8 millionths. Policy: 0.8 * 300,000 + 8 * 10,000 +
    # 0.13 * 100,000 = 240,000 + 80,000 + 13,000 millionths of a dollar.
    run = score_of(
        Usage.of_prompt(300_000, 50_000, 10_000),
        Usage.of_prompt(1_000_000, 800_000, 10_000),
        Usage(embedded=100_000),
    )
    sums = sums_over(run)
    assert value("cost_dollars", sums) == pytest.approx(0.333)
    assert value("cost_relative", sums) == pytest.approx(0.333 / (0.8 + 0.08))
    # 250,000 tokens at 2, 50,000 at 0.5, and the same output and embeddings.
    assert value("prefix_cost_dollars", sums) == pytest.approx(0.5 + 0.025 + 0.08 + 0.013)


def test_cost_includes_the_policys_model_calls() -> None:
    policy_usage = Usage(uncached=40, output=5)
    sums = sums_over(
        score_of(Usage.of_prompt(300, 100, 9), Usage.of_prompt(1_000, 800, 9), policy_usage)
    )
    # 40 tokens read at the full input price and 5 written at four times that price.
    assert value("prompt_cost_10", sums) == pytest.approx((200 + 10 + 40 + 20) / (200 + 80))
    price = 2 * 0.2 + 0.5 * 0.8
    assert value("cost_dollars", sums) == pytest.approx((price * 340 + 8 * 14) / 1e6)
    assert value("prefix_cost_dollars", sums) == pytest.approx((2 * 240 + 50 + 8 * 14) / 1e6)


def test_provider_costs() -> None:
    # A model's own price: dollars for a million tokens.
    price = price_under("openai", "gpt-4o")
    mine = Usage(uncached=300_000, cache_read=100_000)
    full = Usage(uncached=200_000, cache_read=1_800_000)
    run = score_of(Usage(output=10_000), Usage(output=10_000), Usage(uncached=1_000, output=500))
    run.model = "gpt-4o"
    run.cases[0].bills["openai"], run.full_bills["openai"] = mine, full
    sums = sums_over(run)
    policy_cost = 0.3 * 1e6 * price.uncached + 0.1 * 1e6 * price.cache_read
    model_cost = 0.001 * 1e6 * price.uncached + 0.0005 * 1e6 * price.output
    full_cost = 0.2 * 1e6 * price.uncached + 1.8 * 1e6 * price.cache_read
    assert value("openai_prompts", sums) == pytest.approx((policy_cost + model_cost) / full_cost)
    answers = 0.01 * 1e6 * price.output
    expected = (policy_cost + model_cost + answers) / (full_cost + answers)
    assert value("openai_calls", sums) == pytest.approx(expected)
    assert price.cache_read == price.uncached / 2


TASK = user("Find the owner.")


def test_cached_tokens_are_the_shared_prefix() -> None:
    counter = counter_for(None)
    prompts = Prompts(counter)
    first = [
        TASK,
        assistant("I look.", call("a", "look"), call("b", "look")),
        result("a", "one"),
        result("b", "two"),
    ]
    units, usage = prompts.compare([], first)
    assert (usage.prompt, usage.cache_read) == (sum(map(counter.message, first)), 0)
    _, repeated = prompts.compare(units, [*first, assistant("Done.")])
    assert repeated.cache_read == usage.prompt
    # Without the second call, the message's text still matches, but not its calls and what follows.
    _, less = prompts.compare(
        units, [TASK, assistant("I look.", call("a", "look")), result("a", "one")]
    )
    text = counter.message(TASK) + counter.message({"role": "assistant", "content": "I look."})
    assert less.cache_read == text
    # An excerpt in place of the result is a different text.
    cut = [*first[:2], result("a", "on"), result("b", "two")]
    assert prompts.compare(units, cut)[1].cache_read == sum(map(counter.message, first[:2]))


RUN = Run(
    "claude_find-owner",
    "",
    "claude",
    [
        TASK,
        *step("a", "look", "{}", "owner_id OWNER_A " + "filler " * 60, ""),
        *step("b", "look", "{}", "badge_no BADGE_7 " + "filler " * 60, "Now the badge."),
        assistant("It is BADGE_7 of OWNER_A."),
    ],
)


def test_full_policy_costs_as_much_as_full_history() -> None:
    run = replay_run(RUN, [Case("full", 100)], NoEmbedder())
    assert run.full == run.cases[0].agent_usage
    assert run.full_calls == run.cases[0].calls
    counter = counter_for(None)
    full_tokens = [counter.message(message) for message in RUN.messages]
    assert run.full.prompt == full_tokens[0] + sum(full_tokens[:3]) + sum(full_tokens[:5])
    assert run.full.cache_read == full_tokens[0] + sum(full_tokens[:3])
    assert run.full.output == full_tokens[1] + full_tokens[3] + full_tokens[5]
    sums = sums_over(run)
    assert value("cost_relative", sums) == value("openai_prompts", sums) == 1


def test_policy_model_usage_and_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTRENDER_MODEL", "scripted")
    write = ("OWNER_A.", Usage.of_prompt(50, 0, 7))
    monkeypatch.setattr(baselines, "write_summary", lambda *_: write)
    cases = cases_of("compact,prune", "160")
    run = Run("long", "", "", [*RUN.messages[:-1], *RUN.messages[3:]])
    (score,) = replay_runs([run], cases, 1)
    compacted, pruned = score.cases
    assert compacted.policy_usage.prompt == 50 * (compacted.policy_usage.output // 7) > 0
    assert (compacted.warned_calls, pruned.policy_usage) == (0, NOTHING_USED)

    def fail(*_: object) -> None:
        raise SummaryFailed("it is down", Usage.of_prompt(3, 0, 0))

    monkeypatch.setattr(baselines, "write_summary", fail)
    monkeypatch.setenv("CONTEXTRENDER_MODEL", "another")
    (score,) = replay_runs([run], cases, 1)
    assert score.cases[0].warned_calls > 0
    assert score.cases[0].policy_usage.prompt == 3 * score.cases[0].warned_calls


def test_newest_complete_counts_calls_above_budget() -> None:
    (score,) = replay_run(RUN, [Case("prune", 100)], NoEmbedder()).cases
    # Three calls: no result precedes the first, and everything fits 100 tokens at the second.
    assert (score.newest, score.newest_complete) == (1, 1)
    (tight,) = replay_run(RUN, [Case("prune", 70)], NoEmbedder()).cases
    assert tight.newest == 2
    assert tight.newest_complete < 2
