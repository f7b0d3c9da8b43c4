"""The recommended setting and its sentence in `contextrender recommend` and `eval`."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.base.worth import pays_from, pricing_rule_of
from contextrender_bridge.engine.parameters import AUTO
from contextrender_bridge.evaluation import scores
from contextrender_bridge.evaluation.advice import BUDGETS, POLICIES, recommend
from contextrender_bridge.evaluation.bootstrap import Estimate
from contextrender_bridge.evaluation.cases import Case, cases_of
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.verdict import RunLength, Verdict, verdict_on

from tests.support.command import printed
from tests.support.transcripts import assistant, step, user


def figures(
    cost: float, turn_share: float | None, loop: float | None = None, spread: float | None = 0.02
) -> dict[str, Estimate]:
    """Return figures of a case with this share of a cost of $2 and this share of turns with all
    values."""

    def about(value: float | None) -> Estimate:
        if value is None or spread is None:
            return Estimate(value, None, None)
        return Estimate(value, value - spread, value + spread)

    estimates = {"openai_calls": about(cost), "openai_loop": about(loop)}
    estimates |= {"openai_dollars": about(2 * cost), "turns_with_all_values": about(turn_share)}
    return estimates


def verdict(*rows: tuple[int, dict[str, Estimate]], tasks: int = 9) -> Verdict:
    cases = [(Case("contextrender_cache_aware", budget), estimates) for budget, estimates in rows]
    return verdict_on(cases, "openai", tasks)


def budget(verdict: Verdict) -> int | None:
    return verdict.best.case.budget if verdict.best else None


def test_cheapest_setting_with_few_misses_is_recommended() -> None:
    cheap, middle, dear = figures(0.3, 0.94), figures(0.5, 0.96), figures(0.7, 0.99)
    assert budget(verdict((6000, cheap), (12000, middle), (24000, dear))) == 12000
    assert budget(verdict((6000, cheap), (24000, dear))) == 24000
    assert budget(verdict((6000, cheap))) is None


def test_agent_default_is_recommended_if_compared() -> None:
    cheap = figures(0.3, 0.99)
    result = verdict((6000, cheap), (AUTO, figures(0.6, 0.96)))
    assert result.best is not None and result.best.rating.is_default
    assert "with automatic budget would save 40.0%" in result.sentence
    assert budget(verdict((6000, cheap), (AUTO, figures(0.6, 0.9)))) == 6000
    level = verdict((6000, figures(0.3, 0.9)), (AUTO, figures(0.99, 1.0)))
    assert level.best is None and "would take 99.0% of its cost" in level.sentence
    worse = verdict((AUTO, figures(0.6, 0.9)))
    assert worse.best is None and "no replayed setting saves 2%" in worse.sentence


def test_full_history_cost_is_capped_at_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(1)
    uncapped = recommend([run], cases_of("contextrender_cache_aware", "auto")).options[0]
    monkeypatch.setattr(scores, "window_of", lambda _: 9_000)
    capped = recommend([run], cases_of("contextrender_cache_aware", "auto")).options[0]
    assert capped.full_dollars < 0.8 * uncapped.full_dollars


def test_closed_loop_cost_decides_if_replayed() -> None:
    low_bill, low_loop = figures(0.3, 0.96, loop=0.9), figures(0.5, 0.97, loop=0.6)
    result = verdict((6000, low_bill), (12000, low_loop))
    assert budget(result) == 12000
    assert result.best is not None
    assert result.best.dollars == pytest.approx(1.2)
    assert result.best.full_dollars == pytest.approx(2)


def test_full_history_is_best_if_little_is_saved() -> None:
    assert budget(verdict((6000, figures(0.985, 1.0)))) is None
    assert budget(verdict((6000, figures(0.975, 1.0)))) == 6000
    assert verdict_on([(Case("full", 6000), figures(0.1, 1.0))], "openai", 2).best is None


def test_no_misses_if_no_step_uses_a_result() -> None:
    result = verdict((6000, figures(0.85, None)))
    assert budget(result) == 6000
    assert "no step uses an earlier result" in result.sentence


def test_sentence_names_history_length_that_pays() -> None:
    case = Case("contextrender_cache_aware", 6000)
    runs = [
        RunLength(4_000, {case: 1.0}),
        RunLength(9_000, {case: 0.9}),
        RunLength(50_000, {case: 0.3}),
    ]
    result = verdict_on([(case, figures(0.5, 1.0))], "openai", 3, runs)
    assert result.pays_from == 9_000 and result.runs_that_long == 2
    assert "from histories of 9,000 tokens on, which 2 of 3 runs reach" in result.sentence


def test_sentence_names_runs_that_are_too_short() -> None:
    case = Case("contextrender_cache_aware", 6000)
    result = verdict_on([(case, figures(1.0, 1.0))], "openai", 3, [RunLength(5_100, {case: 1.0})])
    assert result.sentence == (
        "The longest history of these runs is 5,100 tokens; under OpenAI's prompt cache, "
        "ContextRender pays from about 50,000. Do not use it for such runs."
    )
    assert pays_from("openai", "claude-sonnet-4-5") == pays_from("anthropic") == 50_000


def test_uncertain_saving_of_short_runs_is_not_recommended() -> None:
    rows = [
        (Case("contextrender_cache_aware", b), figures(0.8, 1.0, spread=0.3)) for b in (6000, AUTO)
    ]
    short = verdict_on(rows, "openai", 3, [RunLength(11_000, {rows[0][0]: 0.3})])
    assert short.best is None and "Do not use it for such runs" in short.sentence
    long = verdict_on(rows, "openai", 3, [RunLength(110_000, {rows[0][0]: 0.3})])
    assert long.best is not None


def test_length_that_pays_ignores_single_short_runs() -> None:
    case = Case("contextrender_cache_aware", 6000)
    costs = {4_000: 0.5, 5_000: 1.1, 6_000: 1.0, 7_000: 1.2, 9_000: 0.8, 12_000: 0.7}
    runs = [RunLength(tokens, {case: cost}) for tokens, cost in costs.items()]
    assert verdict_on([(case, figures(0.5, 1.0))], "openai", 3, runs).pays_from == 9_000


def test_length_that_pays_without_cache_is_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTRENDER_PRICES", "own:input=2,cached=2,output=8")
    assert pays_from("openai", "own") == 24_000


def test_complete_sentence() -> None:
    sure = verdict((12000, figures(0.45, 0.96, loop=0.5)))
    assert sure.sentence == (
        "contextrender_cache_aware with a budget of 12,000 tokens would save 50.0% [48.0,52.0] "
        "of the cost under OpenAI's prompt cache ($1.00 instead of $2.00 per run, repeated calls "
        "included), with a miss in 4.0% [2.0,6.0] of the steps that use earlier results. "
        "Brackets have 95% intervals over 9 tasks."
    )
    unsure = verdict((12000, figures(0.5, 0.96, spread=None)), tasks=1).sentence
    assert "would save 50.0% of the cost" in unsure
    assert "per run)" in unsure
    assert unsure.endswith("One task is too few for an interval.")


def a_run(task: int) -> Run:
    """Return a run with 40 results of about 1,000 tokens; each step uses the value of the
    newest."""
    messages = [user("Follow the links.")]
    for turn in range(40):
        arguments = json.dumps({"at": f"LINK_{task}_{turn - 1}"})
        text = f"LINK_{task}_{turn} " + f"word{task} " * 500
        messages += step(f"c{turn}", "look", arguments, text, "")
    return Run(f"run-{task}", "", "gpt-5.1", [*messages, assistant("Done.")])


@pytest.mark.slow
def test_recommendation_for_file_is_that_for_its_run(tmp_path: Path) -> None:
    run = a_run(1)
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"id": run.id, "model": run.model, "messages": run.messages}))
    report = json.loads(printed("recommend", path, "--json"))
    assert report == recommend([run], cases_of(POLICIES, BUDGETS)).to_json()
    assert [option["budget"] for option in report["options"]] == [
        int(budget) if budget.isdecimal() else budget for budget in BUDGETS.split(",")
    ]
    assert report["best"] is not None
    assert report["best"]["cost"]["low"] is None
    assert "One task is too few for an interval" in report["sentence"]


@pytest.mark.slow
def test_recommend_prints_sentence_and_options(tmp_path: Path) -> None:
    runs = [a_run(number) for number in range(3)]
    path = tmp_path / "runs.jsonl"
    lines = [{"id": r.id, "model": r.model, "messages": r.messages} for r in runs]
    path.write_text("\n".join(map(json.dumps, lines)))
    output = printed("recommend", path, "--budget", "4000,8000", "--workers", "1")
    sentence, table = output.split("\n", 1)
    recommendation = recommend(runs, cases_of("contextrender_cache_aware", "4000,8000"))
    assert sentence == recommendation.sentence
    assert recommendation.best is not None
    assert recommendation.best.cost.low is not None
    assert "8,000" in table
    assert "4,000" in table


def test_anthropic_models_use_anthropic_rule() -> None:
    assert pricing_rule_of(["claude-opus-4-6", "claude-sonnet-4-5"]) == "anthropic"
    assert pricing_rule_of(["claude-opus-4-6", "gpt-5.1"]) == "openai"
    assert pricing_rule_of(["nobody-s-model"]) == "openai"
    assert (
        pricing_rule_of(["claude-opus-4-6", "", "claude-unknown-9", "claude-sonnet-4-5"])
        == "anthropic"
    )
    assert (
        pricing_rule_of(["claude-opus-4-6", "claude-sonnet-4-5", "nobody-s-model"]) == "anthropic"
    )
