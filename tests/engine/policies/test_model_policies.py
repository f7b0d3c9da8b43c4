"""The policies that need a model: which messages a summary replaces, when it is written, and
failures.
"""

from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.explain import explain_results
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.models.summaries import (
    GUIDELINE,
    SummariesInMemory,
    SummaryModel,
    load_guideline,
    summaries_for,
)
from contextrender_bridge.engine.policies import POLICIES
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given
from hypothesis import strategies as st

from tests.api.checks import orphans, tokens_inside
from tests.support import slow_rules
from tests.support.strategies import (
    BUDGETS,
    COUNTER,
    Script,
    check_shown,
    filling,
    modest,
    render,
    scripted_summaries,
    transcripts,
)
from tests.support.transcripts import assistant, call, result, user

NAMES = sorted(name for name, policy in POLICIES.items() if policy.needs_model)
each_policy = pytest.mark.parametrize("policy", NAMES)
any_policy = st.sampled_from(NAMES)


def long_run(turns: int) -> list[Json]:
    """Return a run with one task, and calls with results of 90 to 110 tokens."""
    messages = [{"role": "system", "content": "Be brief."}, user("Audit the ledgers.")]
    for turn in range(turns):
        text = " ".join(f"ledger_{turn}_{row} is fine" for row in range(12))
        messages += [
            assistant(f"Next is ledger {turn}.", call(f"c{turn}", "read", f'{{"n": {turn}}}')),
            result(f"c{turn}", text),
        ]
    return messages


def shown_summary(shown: list[Json]) -> Json:
    (only,) = [m for m in shown if str(m["content"]).startswith("[Summary")]
    return only


@given(transcripts(), BUDGETS, any_policy, st.sampled_from([None, filling]), st.booleans())
@modest
def test_every_call_fits_without_orphans(
    messages: list[Json], budget: int, policy: str, text_of: Any, fails: bool
) -> None:
    script, store = Script(text_of), SummariesInMemory()
    history = History()
    for stop in range(1, len(messages) + 1):
        script.fails = fails and stop % 2 == 0
        history.extend(messages[len(history) : stop], COUNTER)
        head = messages[:stop]
        rendered, prompt = render(
            head, budget, policy, history=history, summaries=scripted_summaries(script, store)
        )
        check_shown(head, rendered, prompt)
        assert rendered.tokens_after <= budget
        kept_messages = slow_rules.outside_budget(head) & set(history.text_messages)
        assert {item.message for item in rendered.items} >= kept_messages
    for _, _, text in script.asked:
        assert text


@each_policy
def test_summary_is_one_marked_tool_result_with_call(policy: str) -> None:
    messages = long_run(20)
    script = Script(lambda *_: "ledger_0_0 is fine")
    rendered, prompt = render(messages, 1000, policy, summaries=scripted_summaries(script))
    summary = shown_summary(prompt)
    assert summary["role"] == "tool"
    assert summary["content"].endswith("ledger_0_0 is fine")
    assert orphans(prompt) == []
    assert prompt[:2] == messages[:2]
    assert tokens_inside(prompt) == rendered.tokens_after <= 1000
    ((result, substitute),) = rendered.selection.excerpts.items()
    assert substitute.kind == "summary"
    position = rendered.view.history.results.message[result]
    rows = {row.position: row.decision for row in explain_results(rendered)}
    assert rows[position].display == "summary"
    assert rows[3].display == "omitted"
    assert "summary covers it" in rows[3].reason


@each_policy
def test_summary_is_extended_only_when_budget_is_full(policy: str) -> None:
    messages = long_run(30)
    script, store = Script(), SummariesInMemory()
    calls: list[int] = []
    for stop in range(4, len(messages) + 1, 2):
        before = len(script.asked)
        rendered, _ = render(
            messages[:stop], 1000, policy, summaries=scripted_summaries(script, store)
        )
        calls.append(len(script.asked) - before)
        assert rendered.usage.prompt == 100 * calls[-1]
    assert set(calls) == {0, 1}
    assert calls.count(1) <= 10
    for (_, _, first), (_, earlier, second) in zip(script.asked, script.asked[1:], strict=False):
        assert earlier
        last = first.rfind("\n[")
        assert int(second[1 : second.index("]")]) > int(first[last + 2 : first.index("]", last)])


def test_compact_summarizes_all_but_the_task() -> None:
    messages = [*long_run(20), user("And now?"), assistant("On it.", call("x", "read", "{}"))]
    messages += [result("x", "ledger_x_1 is short by 5")]
    script = Script()
    _, prompt = render(messages, 600, "compact", summaries=scripted_summaries(script))
    ((way, earlier, text),) = script.asked
    assert (way.guideline, earlier) == ("", "")
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
    _, prompt = render(
        messages, 1000, "acon", summaries=scripted_summaries(script, guideline="Ids only.")
    )
    ((way, _, text),) = script.asked
    assert way.guideline == "Ids only."
    assert "ledger_19_0" not in text
    assert prompt[-2:] == messages[-2:]
    assert shown_summary(prompt)["tool_call_id"] == "c18"
    large = [*messages, assistant(None, call("big", "read", "{}")), result("big", "word " * 400)]
    _, prompt = render(large, 1000, "acon", summaries=scripted_summaries(script))
    assert shown_summary(prompt)["tool_call_id"] == "big"


@each_policy
def test_earlier_calls_render_equally_without_model(policy: str) -> None:
    messages = long_run(20)
    script, store = Script(), SummariesInMemory()
    live = {
        stop: render(messages[:stop], 900, policy, summaries=scripted_summaries(script, store))[
            0
        ].items
        for stop in range(4, len(messages) + 1, 2)
    }
    for stop, items in live.items():
        recorded_only = scripted_summaries(None, store)
        recorded_only.write = None
        repeated, _ = render(messages[:stop], 900, policy, summaries=recorded_only)
        assert repeated.items == items
        assert repeated.warnings == []


def test_guideline_comes_from_file_or_default(tmp_path: Path) -> None:
    summaries = summaries_for("acon", SummariesInMemory(), SummaryModel("some/model"))
    assert summaries and summaries.guideline == GUIDELINE == load_guideline("")
    file = tmp_path / "guideline.txt"
    file.write_text(" Keep é.\n", encoding="utf-8")
    model_with_guideline = SummaryModel("some/model", str(file))
    summaries = summaries_for("acon", SummariesInMemory(), model_with_guideline)
    assert summaries and summaries.guideline == "Keep é."
    for bad in (b"", b"\xff\xfe\xff"):
        file.write_bytes(bad)
        with pytest.raises(InvalidRequest, match="CONTEXTRENDER_ACON_GUIDELINE") as raised:
            summaries_for("acon", SummariesInMemory(), model_with_guideline)
        assert str(tmp_path) not in raised.value.message
    assert summaries_for("compact", SummariesInMemory(), model_with_guideline)
