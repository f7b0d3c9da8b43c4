"""Bootstrap, comparison and the report of `contextrender eval`."""

import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.bootstrap import Bootstrap, differences, pairs_of
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.figures import BY_NAME
from contextrender_bridge.evaluation.report import Report
from contextrender_bridge.evaluation.runs import Run, read_runs
from contextrender_bridge.evaluation.scores import RunScore
from contextrender_bridge.evaluation.workers import replay_runs

from tests.support.command import printed
from tests.support.transcripts import assistant, step, user

CASES = cases_of("prune,recency,full", "120,240")


def a_run(number: int) -> Run:
    """Return a run that uses some of its results; which ones depends on the number."""
    messages = [user("Find the owner.")]
    for turn in range(6):
        arguments = json.dumps({"id": f"OWNER_{number}_{max(0, turn - 1 - number % 3)}"})
        text = f"OWNER_{number}_{turn} " + "filler " * (20 + 9 * number)
        messages += step(f"c{turn}", "look", arguments, text, "")
    messages.append(assistant(f"It is OWNER_{number}_2."))
    return Run(f"agent_task-{number // 2}", "made", "agent", messages)


RUNS = [a_run(number) for number in range(6)]


@cache
def scores() -> list[RunScore]:
    return replay_runs(RUNS, CASES, 1)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    lines = [{"id": r.id, "model": r.model, "messages": r.messages} for r in RUNS]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_run_has_its_task(tmp_path: Path) -> None:
    assert [run.task for run in RUNS[::2]] == ["task-0", "task-1", "task-2"]
    assert Run("gpt.json:37:0", "", "gpt", []).task == "37"
    assert Run("alone", "", "gpt", []).task == "alone"
    path = tmp_path / "named.jsonl"
    path.write_text(json.dumps({"id": "x", "messages": [], "task": "buy milk"}))
    assert read_runs([path])[0].task == "buy milk"


def test_bootstrap_is_deterministic() -> None:
    first, repeated, other = (Bootstrap(scores(), size) for size in (21, 21, 22))
    assert first.tasks == 3
    reports = [Report(bootstrap, [], None).to_json() for bootstrap in (first, repeated)]
    assert reports[0] == reports[1]
    assert first.estimates(0) != other.estimates(0)
    for index in range(len(CASES)):
        for name, estimate in first.estimates(index).items():
            if estimate.value is not None:
                assert estimate.low is not None
                assert estimate.high is not None
                assert estimate.low <= estimate.high, name
    recall_value = first.estimates(0)["result_recall"].value
    recall = [run.cases[0].recall for run in scores()]
    visible_count = sum(sum(run_score.visible_by_age.values()) for run_score in recall)
    assert recall_value == pytest.approx(visible_count / sum(r.events for r in recall))


def test_runs_of_one_task_are_sampled_together() -> None:
    alike = [scores()[0], scores()[0], scores()[4], scores()[4]]
    one_each = [scores()[0], scores()[4]]
    two, four = (Bootstrap(runs, 300).estimates(0) for runs in (one_each, alike))
    assert two["result_recall"] == four["result_recall"]


def test_differences_are_paired() -> None:
    bootstrap = Bootstrap(scores(), 200)
    pairs = pairs_of([["prune", "full"]], [120, 240])
    assert [(str(a), str(b)) for a, b in pairs] == [
        ("prune@120", "full@120"),
        ("prune@240", "full@240"),
    ]
    by_figure = {d.figure.name: d for d in differences(bootstrap, pairs[:1])}
    assert set(by_figure) == set(BY_NAME)
    recall_difference, saved = by_figure["result_recall"], by_figure["tokens_per_call"]
    policy_recall, full = (bootstrap.estimates(i)["result_recall"].value for i in (0, 4))
    assert policy_recall is not None
    assert full is not None
    assert recall_difference.estimate.value == pytest.approx(policy_recall - full)
    assert (recall_difference.verdict, saved.verdict) == ("worse", "better")
    # The full history's recall is always 1, so the difference varies with the policy's recall.
    assert recall_difference.estimate.low == pytest.approx(
        (bootstrap.estimates(0)["result_recall"].low or 0) - 1
    )


def test_policies_of_different_budgets_are_compared() -> None:
    pairs = pairs_of([["prune@240", "recency@120"], ["prune@120", "full"]], [120, 240])
    assert [(str(a), str(b)) for a, b in pairs] == [
        ("prune@240", "recency@120"),
        ("prune@120", "full@120"),
        ("prune@120", "full@240"),
    ]
    with pytest.raises(CommandError, match="two different cases"):
        pairs_of([["prune", "prune"]], [120])


def test_case_overrides_default_parameters() -> None:
    plain, with_decay = cases_of("recency:reuse_rate=1,recency:reuse_rate=1:recency_decay=2", "120")
    assert plain.changed_parameters == {"reuse_rate": 1}
    assert with_decay.changed_parameters == {"reuse_rate": 1, "recency_decay": 2}
    assert str(with_decay) == "recency:reuse_rate=1:recency_decay=2@120"
    for wrong in ("decay=1", "recency_decay=fast", "recency_decay"):
        with pytest.raises(CommandError):
            cases_of(f"recency:{wrong}", "120")


@pytest.mark.slow
def test_eval_writes_report_and_figures(file: Path, tmp_path: Path) -> None:
    arguments = ["--policy", "prune,full", "--budget", "120,240", "--out", str(tmp_path / "out")]
    output = printed("eval", file, *arguments, "--compare", "recency@120", "prune@240")
    assert "recency@120 less prune@240, paired by task" in output
    assert "Runs: 6. Tasks: 3." in output
    figures = json.loads((tmp_path / "out" / "figures.json").read_text())
    assert [case["policy"] for case in figures["cases"]] == ["prune"] * 2 + ["full"] * 2 + [
        "recency"
    ]
    assert set(figures["cases"][0]["figures"]) == set(BY_NAME)
    assert {comparison["figure"] for comparison in figures["compared"]} == set(BY_NAME)
    _check_page((tmp_path / "out" / "report.html").read_text())


def _check_page(html: str) -> None:
    tags = re.findall(r"<([a-z]+)", html)
    assert tags.count("svg") == 1
    assert "table" in tags
    assert not {"script", "link", "iframe", "img", "object", "embed"} & set(tags)
    referring = r"""\b(?:src|href|data|action|poster|srcset)\s*=\s*["']?([^"'\s>]*)"""
    assert all(reference.startswith("#") for reference in re.findall(referring, html))
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", html)
    hosts = set(re.findall(r"[a-z]+://([^/\"\s<]+)", html))
    assert hosts <= {"www.w3.org"}, "only the names of SVG's name spaces"
    for text in ("recency@120 less prune@240", "Brackets have", "contextrender "):
        assert text in html
    verdict, curve, table = (html.index(part) for part in ("<h1>", "<figure>", "<table"))
    assert verdict < curve < table
    assert "best for these runs" in html[verdict:curve] or "would save" in html[verdict:curve]


def test_missing_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "contextrender_bridge.evaluation.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "[eval]'`" in printed("eval", file, status=1)
