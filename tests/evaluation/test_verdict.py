"""The verdict: what is advised, in which words, by `contextrender recommend` and on eval's page."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.base.worth import pays_from, pricing_rule_of
from contextrender_bridge.engine.parameters import AUTO
from contextrender_bridge.evaluation import scores
from contextrender_bridge.evaluation.advice import BUDGETS, recommend, recommend_for_session
from contextrender_bridge.evaluation.bootstrap import Estimate
from contextrender_bridge.evaluation.cases import Case, cases_of
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.verdict import RunLength, Verdict, verdict_on

from tests.support.command import printed
from tests.support.transcripts import assistant, step, user


def figures(
    cost: float, seen: float | None, loop: float | None = None, spread: float | None = 0.02
) -> dict[str, Estimate]:
    """Figures of a case that costs that share of $2 a run and shows that share of turns all."""

    def about(value: float | None) -> Estimate:
        if value is None or spread is None:
            return Estimate(value, None, None)
        return Estimate(value, value - spread, value + spread)

    known = {"openai_calls": about(cost), "openai_loop": about(loop)}
    known |= {"openai_dollars": about(2 * cost), "turns_with_all_values": about(seen)}
    return known


def verdict(*rows: tuple[int, dict[str, Estimate]], tasks: int = 9) -> Verdict:
    known = [(Case("contextrender_cache_aware", budget), found) for budget, found in rows]
    return verdict_on(known, "openai", tasks)


def budget(found: Verdict) -> int | None:
    return found.best.case.budget if found.best else None


def test_the_cheapest_that_hides_little_is_advised() -> None:
    cheap, middle, dear = figures(0.3, 0.94), figures(0.5, 0.96), figures(0.7, 0.99)
    assert budget(verdict((6000, cheap), (12000, middle), (24000, dear))) == 12000
    assert budget(verdict((6000, cheap), (24000, dear))) == 24000
    assert budget(verdict((6000, cheap))) is None


def test_the_live_default_is_advised_where_it_is_among_them() -> None:
    cheap = figures(0.3, 0.99)
    found = verdict((6000, cheap), (AUTO, figures(0.6, 0.9)))
    assert found.best is not None and found.best.is_default
    assert "with automatic budget would save 40.0%" in found.sentence
    level = verdict((6000, cheap), (AUTO, figures(0.99, 1.0)))
    assert level.best is None and "would take 99.0% of its cost" in level.sentence


def test_full_history_is_billed_within_the_models_window(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(1)
    whole = recommend([run], cases_of("contextrender_cache_aware", "auto")).options[0]
    monkeypatch.setattr(scores, "window_of", lambda _: 9_000)
    capped = recommend([run], cases_of("contextrender_cache_aware", "auto")).options[0]
    assert capped.full_dollars < 0.8 * whole.full_dollars


def test_what_is_fetched_again_decides_where_it_was_replayed() -> None:
    low_bill, low_loop = figures(0.3, 0.96, loop=0.9), figures(0.5, 0.97, loop=0.6)
    found = verdict((6000, low_bill), (12000, low_loop))
    assert budget(found) == 12000
    assert found.best is not None
    assert found.best.dollars == pytest.approx(1.2)
    assert found.best.full_dollars == pytest.approx(2)


def test_full_history_is_best_where_little_is_saved_or_nothing_can_be_told() -> None:
    assert budget(verdict((6000, figures(0.985, 1.0)))) is None
    assert budget(verdict((6000, figures(0.975, 1.0)))) == 6000
    full = Case("full", 6000)
    assert verdict_on([(full, figures(0.1, 1.0))], "openai", 2).best is None


def test_where_no_step_draws_on_a_result_nothing_needed_is_hidden() -> None:
    found = verdict((6000, figures(0.85, None)))
    assert budget(found) == 6000
    assert "no step uses an earlier result" in found.sentence


def test_it_says_from_what_length_on_it_pays() -> None:
    case = Case("contextrender_cache_aware", 6000)
    runs = [
        RunLength(4_000, {case: 1.0}),
        RunLength(9_000, {case: 0.9}),
        RunLength(50_000, {case: 0.3}),
    ]
    found = verdict_on([(case, figures(0.5, 1.0))], "openai", 3, runs)
    assert found.pays_from == 9_000 and found.runs_that_long == 2
    assert "from histories of 9,000 tokens on, which 2 of 3 runs reach" in found.sentence


def test_runs_that_are_too_short_are_told() -> None:
    case = Case("contextrender_cache_aware", 6000)
    found = verdict_on([(case, figures(1.0, 1.0))], "openai", 3, [RunLength(5_100, {case: 1.0})])
    assert found.sentence == (
        "The longest history of these runs is 5,100 tokens; under OpenAI's prompt cache, "
        "ContextRender pays from about 50,000. Do not use it for such runs."
    )
    assert pays_from("openai", "claude-sonnet-4-5") == pays_from("anthropic") == 50_000


def test_a_few_short_runs_that_saved_do_not_say_from_where_it_pays() -> None:
    case = Case("contextrender_cache_aware", 6000)
    costs = {4_000: 0.5, 5_000: 1.1, 6_000: 1.0, 7_000: 1.2, 9_000: 0.8, 12_000: 0.7}
    runs = [RunLength(tokens, {case: cost}) for tokens, cost in costs.items()]
    found = verdict_on([(case, figures(0.5, 1.0))], "openai", 3, runs)
    assert found.pays_from == 9_000


def test_without_a_cache_it_pays_as_soon_as_something_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_PRICES", "own:input=2,cached=2,output=8")
    assert pays_from("openai", "own") == 24_000


def test_the_sentence_says_all_of_it() -> None:
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
    """A run with 40 results of some 1,000 tokens, of which each step repeats the newest's value."""
    messages = [user("Follow the links.")]
    for turn in range(40):
        arguments = json.dumps({"at": f"LINK_{task}_{turn - 1}"})
        text = f"LINK_{task}_{turn} " + f"word{task} " * 500
        messages += step(f"c{turn}", "look", arguments, text, "")
    return Run(f"run-{task}", "", "gpt-5.1", [*messages, assistant("Done.")])


@pytest.mark.slow
def test_a_session_is_advised_on_as_a_file_of_that_session_is(tmp_path: Path) -> None:
    run = a_run(1)
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"id": run.id, "model": run.model, "messages": run.messages}))
    told = json.loads(printed("recommend", path, "--json"))
    assert told == recommend_for_session(run.messages, run.model).to_json()
    assert [option["budget"] for option in told["options"]] == [
        int(budget) if budget.isdecimal() else budget for budget in BUDGETS.split(",")
    ]
    assert told["best"] is not None
    assert told["best"]["cost"]["low"] is None
    assert "One task is too few for an interval" in told["sentence"]


@pytest.mark.slow
def test_advise_prints_the_verdict_and_what_it_was_chosen_from(tmp_path: Path) -> None:
    runs = [a_run(number) for number in range(3)]
    path = tmp_path / "runs.jsonl"
    lines = [{"id": r.id, "model": r.model, "messages": r.messages} for r in runs]
    path.write_text("\n".join(map(json.dumps, lines)))
    told = printed("recommend", path, "--budget", "4000,8000", "--workers", "1")
    sentence, table = told.split("\n", 1)
    found = recommend(runs, cases_of("contextrender_cache_aware", "4000,8000"))
    assert sentence == found.sentence
    assert found.best is not None
    assert found.best.cost.low is not None
    assert "8,000" in table
    assert "4,000" in table


def test_runs_of_anthropics_models_are_billed_by_its_rule() -> None:
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
