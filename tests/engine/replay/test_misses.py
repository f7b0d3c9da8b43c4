"""Misses of calls, checked against the texts of the prompts."""

from typing import Any

import pytest
from contextrender_bridge.engine.call.render_call import assemble
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.text.transcript import Json

from tests.console.transcripts import make_run
from tests.engine.replay.test_past import FOREVER, past_of
from tests.support import slow_rules
from tests.support.transcripts import assistant, call, step, user

TIGHT = RenderSettings(budget=400, policy="prune")


def lookup(key: str, name: str, answer: str) -> list[Json]:
    return step(key, name, "{}", answer, "")


FILLER: list[Json] = []
for number in range(8):
    FILLER += lookup(f"f{number}", f"read_{number}", f"plain words {number} " * 40)
REFUND = assistant("", call("r", "refund", "ORD_77412"))
ORDER = [
    user("Refund the customer."),
    *lookup("a", "find_order", "the order is ORD_77412 " + "of a customer " * 60),
    *FILLER,
]


def misses_of(messages: list[Json], settings: RenderSettings = TIGHT) -> list[Any]:
    past = past_of(messages)
    (steps,) = past.replays.up_to([SettingsByTurn(settings)], past.turns, FOREVER)
    return [(step.turn, miss) for step in steps for miss in step.missing_results]


def test_use_of_omitted_value_is_a_miss() -> None:
    ((turn, miss),) = misses_of([*ORDER, REFUND])
    assert (turn, miss.result, miss.values, miss.repeated) == (10, 0, ("ORD_77412",), False)
    past = past_of([*ORDER, REFUND])
    (step,) = past.replays.up_to([SettingsByTurn(TIGHT)], past.turns, FOREVER)[0][-1:]
    (explained,) = past.misses_at(step, SettingsByTurn(TIGHT))
    assert explained.missing_result == miss
    decision = explained.decision
    assert decision.display == "omitted" and decision.remaining_tokens is not None
    assert explained.cost > decision.remaining_tokens


def test_value_cut_from_a_call_is_not_visible() -> None:
    long = f"{'so it goes ' * 600}ORD_77412{' and so on' * 600}"
    write_step = step("w", "write_file", long, "ok", "")
    settings = RenderSettings(budget=400, policy="prune", agent_defaults=True)
    misses = misses_of([*ORDER, *write_step, REFUND], settings)
    assert ("ORD_77412",) in [miss.values for turn, miss in misses if turn == 11]


def test_repeated_call_is_a_miss_unless_result_is_visible() -> None:
    repeated_call = assistant("", call("b", "find_order"))
    ((turn, miss),) = misses_of([*ORDER, repeated_call])
    assert (turn, miss.result, miss.values, miss.repeated) == (10, 0, (), True)
    assert misses_of([*ORDER[:3], repeated_call]) == []


@pytest.mark.parametrize("policy", ["contextrender", "prune", "contextrender_excerpts"])
def test_misses_equal_values_absent_from_prompts(policy: str) -> None:
    messages = make_run(30)
    settings = RenderSettings(budget=900, policy=policy)
    past = past_of(messages)
    (steps,) = past.replays.up_to([SettingsByTurn(settings)], past.turns, FOREVER)
    numbers = [place for place, m in enumerate(messages) if m["role"] == "tool"]
    prompts = {}
    for replayed_call in steps:
        before = past.messages_before(replayed_call.turn)
        assert before is not None
        items = past.render(past.history_before(before), settings).items
        prompts[replayed_call.turn] = [assemble(messages[item["message"]], item) for item in items]
    misses_of = {
        (step.turn, numbers[missing_result.result], value)
        for step in steps
        for missing_result in step.missing_results
        for value in missing_result.values
    }
    assert misses_of == slow_rules.misses(messages, prompts) != set()


def test_names_of_fields_and_tools_are_marked() -> None:
    """An agent knows these names without the result, unless they are also values."""
    record = '{"order_id": "ORD_77412", "page_limit": 50}' + " and a customer" * 60
    past = [
        user("Refund the customer."),
        *lookup("a", "find_order", record + " find_invoice"),
        *FILLER,
    ]

    def misses_of_text(text: str) -> list[tuple[tuple[str, ...], bool]]:
        return [(lack.values, lack.names_only) for _, lack in misses_of([*past, assistant(text)])]

    assert misses_of_text("I set page_limit and order_id.") == [(("order_id", "page_limit"), True)]
    assert misses_of_text("order_id is ORD_77412.") == [(("ORD_77412", "order_id"), False)]
    assert misses_of_text("find_invoice next.") == [(("find_invoice",), False)]
