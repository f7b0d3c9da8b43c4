"""The baselines: which messages a summary replaces, when it is written, and failures."""

from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.engine import policies
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.text.transcript import Json
from contextrender_bridge.evaluation.baselines import BASELINES, baseline_policy, new_summaries
from contextrender_bridge.evaluation.baselines.summaries import (
    GUIDELINE,
    Summaries,
    SummaryFailed,
    load_guideline,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.api.checks import orphans, tokens_inside
from tests.support import slow_rules
from tests.support.strategies import BUDGETS, COUNTER, check_shown, modest, render, transcripts
from tests.support.transcripts import assistant, call, result, system, user

each_policy = pytest.mark.parametrize("policy", BASELINES)

TextOf = Callable[[str, str, int], str]


class Script:
    """A summary writer that returns `text_of(text, earlier, limit)` and records its requests."""

    def __init__(self, text_of: TextOf | None = None) -> None:
        self.text_of = text_of or (lambda text, earlier, _: f"{earlier}+{len(text)}".strip("+"))
        self.requests: list[tuple[str, str, str]] = []
        self.fails = False

    def __call__(
        self, model: str, text: str, earlier: str, limit: int, guideline: str
    ) -> tuple[str, Usage]:
        self.requests.append((guideline, earlier, text))
        if self.fails:
            raise SummaryFailed("the script says no", Usage(uncached=7))
        summary_text = COUNTER.cut(self.text_of(text, earlier, limit), limit)
        return summary_text, Usage(uncached=100, output=10)

    def summaries(self, guideline: str = "") -> Summaries:
        """Return the summaries of a new history."""
        return Summaries("scripted", self, guideline)


def fill_limit(text: str, earlier: str, limit: int) -> str:
    return "noted " * limit


def render_baseline(
    messages: list[Json], budget: int, policy: str, summaries: Summaries
) -> tuple[RenderedCall, list[Json]]:
    return render(messages, budget, baseline_policy(policy, summaries))


def long_run(turns: int) -> list[Json]:
    """Return a run with one task, and calls with results of 90 to 110 tokens."""
    messages = [system("Be brief."), user("Audit the ledgers.")]
    for turn in range(turns):
        text = " ".join(f"ledger_{turn}_{row} is fine" for row in range(12))
        messages += [
            assistant(f"Next is ledger {turn}.", call(f"c{turn}", "read", f'{{"n": {turn}}}')),
            result(f"c{turn}", text),
        ]
    return messages


def summary_hosts(rendered: RenderedCall) -> set[int]:
    """Return the results that a summary replaces."""
    excerpts = rendered.selection.excerpts
    return {result for result, substitute in excerpts.items() if substitute.kind == "summary"}


def shown_summary(prompt: list[Json]) -> Json:
    (summary,) = [m for m in prompt if str(m["content"]).startswith("[Summary")]
    return summary


@given(
    transcripts(),
    BUDGETS,
    st.sampled_from([*BASELINES]),
    st.sampled_from([None, fill_limit]),
    st.booleans(),
    st.booleans(),
)
@modest
def test_every_call_fits_without_orphans(
    messages: list[Json],
    budget: int,
    name: str,
    text_of: TextOf | None,
    fails: bool,
    agent_defaults: bool,
) -> None:
    script, history = Script(text_of), History()
    policy = baseline_policy(name, script.summaries(), agent_defaults)
    for stop in range(1, len(messages) + 1):
        script.fails = fails and stop % 2 == 0
        history.extend(messages[len(history) : stop], COUNTER)
        head = messages[:stop]
        rendered, prompt = render(
            head, budget, policy, history=history, agent_defaults=agent_defaults
        )
        check_shown(head, rendered, prompt)
        assert rendered.tokens_after <= budget
        kept_messages = slow_rules.outside_budget(head) & set(history.text_messages)
        assert {item["message"] for item in rendered.items} >= kept_messages
        if agent_defaults and budget == 700:  # which is enough for the newest results
            shown_results = rendered.selection.shown_results
            assert shown_results - summary_hosts(rendered) >= set(rendered.context.newest)
    for _, _, text in script.requests:
        assert text


@each_policy
def test_summary_is_one_marked_tool_result_with_call(policy: str) -> None:
    messages = long_run(20)
    summaries = Script(lambda *_: "ledger_0_0 is fine").summaries()
    rendered, prompt = render_baseline(messages, 1000, policy, summaries)
    summary = shown_summary(prompt)
    assert summary["role"] == "tool"
    assert summary["content"].endswith("ledger_0_0 is fine")
    assert orphans(prompt) == []
    assert prompt[:2] == messages[:2]
    assert tokens_inside(prompt) == rendered.tokens_after <= 1000
    assert len(summary_hosts(rendered)) == 1
    assert 3 in rendered.omitted


@each_policy
def test_summary_is_extended_only_when_budget_is_full(policy: str) -> None:
    messages = long_run(30)
    script, calls = Script(), list[int]()
    summaries = script.summaries()
    for stop in range(4, len(messages) + 1, 2):
        before = len(script.requests)
        render_baseline(messages[:stop], 1000, policy, summaries)
        calls.append(len(script.requests) - before)
        usage, warnings = summaries.take_usage()
        assert (usage.prompt, warnings) == (100 * calls[-1], [])
    assert set(calls) == {0, 1}
    assert calls.count(1) <= 10
    for (_, _, first), (_, earlier, second) in zip(
        script.requests, script.requests[1:], strict=False
    ):
        assert earlier
        last = first.rfind("\n[")
        assert int(second[1 : second.index("]")]) > int(first[last + 2 : first.index("]", last)])


def test_compact_summarizes_all_but_the_task() -> None:
    messages = [*long_run(20), user("And now?"), assistant("On it.", call("x", "read", "{}"))]
    messages += [result("x", "ledger_x_1 is short by 5")]
    script = Script()
    _, prompt = render_baseline(messages, 600, "compact", script.summaries())
    ((guideline, earlier, text),) = script.requests
    assert (guideline, earlier) == ("", "")
    assert text.startswith("[0] system:")
    assert "ledger_x_1 is short by 5" in text
    assert '[2] call of read: {"n": 0}' in text
    assert [m["role"] for m in prompt] == ["system", "user", "user", "assistant", "tool"]
    assert prompt[1:3] == [messages[1], messages[-3]]
    assert prompt[3]["content"] == ""
    assert prompt[4]["tool_call_id"] == "x"


def test_acon_uses_guideline_and_keeps_last_turn() -> None:
    messages = long_run(20)
    script = Script()
    _, prompt = render_baseline(messages, 1000, "acon", script.summaries("Ids only."))
    ((guideline, _, text),) = script.requests
    assert guideline == "Ids only."
    assert "ledger_19_0" not in text
    assert prompt[-2:] == messages[-2:]
    assert shown_summary(prompt)["tool_call_id"] == "c18"
    large = [*messages, assistant(None, call("big", "read", "{}")), result("big", "word " * 400)]
    _, prompt = render_baseline(large, 1000, "acon", script.summaries())
    assert shown_summary(prompt)["tool_call_id"] == "big"


@each_policy
def test_failing_model_falls_back_to_prune_with_warning(policy: str) -> None:
    script = Script()
    summaries = script.summaries()
    script.fails = True
    _, prompt = render_baseline(long_run(20), 1000, policy, summaries)
    assert prompt == render(long_run(20), 1000, "prune")[1]
    usage, (warning,) = summaries.take_usage()
    assert usage.prompt == 7 and "not summarised" in warning and "ledger" not in warning
    script.fails = False
    assert shown_summary(render_baseline(long_run(20), 1000, policy, summaries)[1])


def test_guideline_comes_from_file_or_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidRequest, match="set CONTEXTRENDER_MODEL"):
        new_summaries("acon")
    monkeypatch.setenv("CONTEXTRENDER_MODEL", "some/model")
    assert new_summaries("acon").guideline == GUIDELINE == load_guideline("")
    file = tmp_path / "guideline.txt"
    file.write_text(" Keep é.\n", encoding="utf-8")
    monkeypatch.setenv("CONTEXTRENDER_ACON_GUIDELINE", str(file))
    assert new_summaries("acon").guideline == "Keep é."
    for bad in (b"", b"\xff\xfe\xff"):
        file.write_bytes(bad)
        with pytest.raises(InvalidRequest, match="CONTEXTRENDER_ACON_GUIDELINE") as raised:
            new_summaries("acon")
        assert str(tmp_path) not in raised.value.message
    assert new_summaries("compact").guideline == ""


def test_servers_refuse_the_baselines_by_name() -> None:
    for name in BASELINES:
        with pytest.raises(InvalidRequest) as raised:
            policies.policy_named(name)
        assert raised.value.message == (
            f"no policy {name!r}; there are {', '.join(policies.POLICIES)}; "
            f"{', '.join(BASELINES)} are baselines of `contextrender eval`"
        )
