"""A step of which some calls are omitted stays valid for providers that check whole steps."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.dialects import DIALECTS, MessagePlan, Transcript
from contextrender_bridge.dialects.message_plan import OMITTED_TEXT

from tests.support.provider_rules import (
    SIGNATURE,
    faults,
    items_without_signature,
    newest,
    signature,
)

ASK: Json = {"role": "user", "content": "Find the fault."}
Signed = Callable[[Json, str], Json]


def google(call: Json, value: str) -> Json:
    return {**call, "extra_content": {"google": {SIGNATURE: value}, "own": 1}}


def litellm(call: Json, value: str) -> Json:
    return {**call, "provider_specific_fields": {SIGNATURE: value}}


def gateway(call: Json, value: str) -> Json:
    return {**call, SIGNATURE: value}


def sdk(call: Json, value: str) -> Json:
    return {**call, "provider_data": {SIGNATURE: value}}


def chat_call(name: str) -> Json:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def chat_step(calls: list[Json], text: str | None = None) -> list[Json]:
    answers = [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls]
    return [{"role": "assistant", "content": text, "tool_calls": calls}, *answers]


def use(name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": "look", "input": {}}


def blocks_step(calls: list[Json], *blocks: Json) -> list[Json]:
    answers = [{"type": "tool_result", "tool_use_id": c["id"], "content": "x"} for c in calls]
    return [
        {"role": "assistant", "content": [*blocks, *calls]},
        {"role": "user", "content": answers},
    ]


def item_call(name: str) -> Json:
    return {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"}


def items_step(calls: list[Json]) -> list[Json]:
    outputs = [{"type": "function_call_output", "call_id": c["call_id"]} for c in calls]
    return [*calls, *({**output, "output": "x"} for output in outputs)]


STEPS: dict[str, Any] = {
    "chat": ("messages", chat_call, chat_step),
    "messages": ("messages", use, blocks_step),
    "responses": ("input", item_call, items_step),
}


def read(dialect: str, body: Json) -> Transcript:
    return dialect_of(dialect, body).read(body)


def without(transcript: Transcript, *results: int, texts: bool = True) -> Json:
    """Return the request after a plan that omits these results with their calls."""
    removed = {transcript.call_pairs.call_of_result[result] for result in results}
    rows: list[Json] = [
        {
            "message": place,
            "calls": [
                n for n in range(len(m.get("tool_calls") or ())) if (place, n) not in removed
            ],
            "text": None,
        }
        for place, m in enumerate(transcript.messages)
        if place not in results
    ]
    rows = [s for s in rows if s["calls"] or transcript.messages[s["message"]]["content"]]
    return transcript.apply(transcript.plan(rows))


def results_of(transcript: Transcript) -> list[int]:
    return [n for n, m in enumerate(transcript.messages) if m["role"] == "tool"]


@pytest.mark.parametrize(
    ("dialect", "sign"),
    [
        ("chat", google),
        ("chat", litellm),
        ("chat", gateway),
        ("messages", gateway),
        ("responses", sdk),
        ("responses", google),
    ],
)
def test_first_kept_call_is_signed(dialect: str, sign: Signed) -> None:
    key, call, step = STEPS[dialect]
    steps = [step([sign(call(f"a{n}"), f"SIG{n}"), call(f"b{n}"), call(f"c{n}")]) for n in range(3)]
    body = {"model": "m", key: [ASK, *(item for step in steps for item in step)]}
    transcript = read(dialect, body)
    results = results_of(transcript)
    before = copy.deepcopy(body)
    # Omit the first call of one step and the first two of another.
    new_body = without(transcript, results[0], results[3], results[4])
    assert body == before
    assert not faults(dialect, new_body)
    assert not items_without_signature(dialect, new_body)
    text = str(new_body)
    assert all(f"SIG{n}" in text for n in range(3))
    # A step without calls needs no signature.
    assert "SIG1" not in str(without(transcript, *results[3:6]))


def test_signature_in_id_is_moved_to_field() -> None:
    """LiteLLM writes it into the id and reads both."""
    calls = [chat_call("call_1__thought__SIG"), chat_call("call_2")]
    body = {"messages": [ASK, *chat_step(calls), *chat_step([chat_call("call_3")])]}
    new_body = without(read("chat", body), 2)
    assert signature(new_body["messages"][1]["tool_calls"][0]) == "SIG"


def test_reasoning_names_a_kept_call() -> None:
    """For Gemini, OpenRouter's encrypted reasoning has the id of the first call."""
    first = chat_step([chat_call("a"), chat_call("b")])
    detail = {"type": "reasoning.encrypted", "data": "SIG", "id": "a", "format": "google-gemini-v1"}
    first[0]["reasoning_details"] = [{"type": "reasoning.text", "text": "hm"}, detail]
    transcript = read("chat", {"messages": [ASK, *first, *chat_step([chat_call("c")])]})
    (_, answer, *_) = without(transcript, 2)["messages"]
    assert answer["reasoning_details"] == [
        {"type": "reasoning.text", "text": "hm"},
        {**detail, "id": "b"},
    ]


STEPS_WITH_TEXT: list[Any] = [
    ("chat", lambda n: chat_step([chat_call(f"a{n}")], f"Step {n}.")),
    (
        "messages",
        lambda n: blocks_step(
            [use(f"a{n}")],
            {"type": "thinking", "thinking": f"t{n}", "signature": f"SIG{n}"},
            {"type": "text", "text": f"Step {n}."},
        ),
    ),
    ("messages", lambda n: blocks_step([use(f"a{n}")], {"type": "text", "text": f"Step {n}."})),
    (
        "responses",
        lambda n: [
            {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": f"e{n}"},
            {"role": "assistant", "content": [{"type": "output_text", "text": f"Step {n}."}]},
            *items_step([item_call(f"a{n}")]),
        ],
    ),
]


@pytest.mark.parametrize(("dialect", "step"), STEPS_WITH_TEXT)
def test_newest_message_is_unchanged(dialect: str, step: Any) -> None:
    key = STEPS[dialect][0]
    body = {"model": "m", key: [ASK, *(item for n in range(5) for item in step(n))]}
    transcript = read(dialect, body)
    results = results_of(transcript)
    for omitted in (results[:4], results[3:4], results[1:4], results):
        new_body = without(transcript, *omitted)
        came, new_items = newest(dialect, body), newest(dialect, new_body)
        assert (new_items[-len(came) :] if dialect == "responses" else new_items) == came
        assert not faults(dialect, new_body)
        text = str(new_body)
        assert all(f"Step {n}." in text for n in range(5))  # all texts of the agent are kept
    assert OMITTED_TEXT in str(new_body)


def thinking(name: str) -> Json:
    return {"type": "thinking", "thinking": name, "signature": name}


SEARCH: list[Json] = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
]
CODE = {"type": "server_tool_use", "id": "c1", "name": "code_execution", "input": {}}
BY_CODE = {"type": "code_execution_20250825", "tool_id": "c1"}
INTERLEAVED: dict[str, list[Json]] = {
    "thinking after a text": [thinking("1"), {"type": "text", "text": "said"}, thinking("2")],
    "thinking after a search": [thinking("1"), *SEARCH, thinking("2")],
    "thinking before two calls": [thinking("1"), use("b"), thinking("2")],
    "calls of the provider's code": [thinking("1"), CODE, {**use("b"), "caller": BY_CODE}],
}


@pytest.mark.parametrize("case", INTERLEAVED)
def test_interleaved_thinking_is_valid_without_its_call(case: str) -> None:
    blocks = [*INTERLEAVED[case], use("a")]
    first, results = blocks_step([block for block in blocks if block["type"] == "tool_use"])
    step = [{**first, "content": blocks}, results, *blocks_step([use("z")])]
    transcript = read("messages", {"messages": [ASK, *step]})
    paired = transcript.call_pairs.call_of_result
    for omitted in ([n] for n in results_of(transcript) if n in paired):
        assert not faults("messages", without(transcript, *omitted)), omitted
    assert not faults("messages", without(transcript, *paired))


def test_parallel_calls_of_newest_message_are_kept() -> None:
    calls = [google(chat_call("a"), "SIG"), chat_call("b"), chat_call("c")]
    body = {"messages": [ASK, *chat_step(calls)]}
    transcript = read("chat", body)
    messages = without(transcript, 2, 3)["messages"]
    assert messages[1] == body["messages"][1]
    assert [item["content"] for item in messages[2:]] == [OMITTED_TEXT, OMITTED_TEXT, "x"]
    plan = transcript.plan([{"message": n, "calls": [], "text": None} for n in (0, 4)])
    assert plan.omitted_results() == [2, 3]


def test_long_arguments_of_previous_step_are_omitted() -> None:
    long = {
        **chat_call("a0"),
        "function": {"name": "write", "arguments": '{"a": "' + "x" * 9000 + '"}'},
    }
    body = {"messages": [ASK, *chat_step([long], "I write."), *chat_step([chat_call("a1")])]}
    messages = without(read("chat", body), 2)["messages"]
    assert len(str(messages)) < 2000
    assert messages[1]["content"] == "I write."
    assert messages[3:] == body["messages"][3:]


def no_ids(item: Json) -> Json:
    """Remove ids, as Ollama does."""
    if item["role"] == "tool":
        return {"role": "tool", "tool_name": "look", "content": item["content"]}
    calls = [{"function": {"name": "look", "arguments": {"at": 1}}} for _ in item["tool_calls"]]
    return {**item, "content": "", "tool_calls": calls}


def named_results(item: Json) -> Json:
    """Keep the ids of calls; results have only the name of their tool."""
    if item["role"] == "tool":
        return {"role": "tool", "name": "look", "content": item["content"]}
    return item


def with_ids(of_result: Callable[[str], Any], of_call: Callable[[str, int], Any]) -> Any:
    """Return what changes the ids of a step's items; a call also has a number."""

    def change(item: Json) -> Json:
        if item["role"] == "tool":
            return {**item, "tool_call_id": of_result(item["tool_call_id"])}
        calls = enumerate(item["tool_calls"])
        return {**item, "tool_calls": [{**c, "id": of_call(c["id"], n)} for n, c in calls]}

    return change


CHANGES: dict[str, Callable[[Json], Json]] = {
    "no ids": no_ids,
    "empty ids": with_ids(lambda _: "", lambda *_: ""),
    "null ids": with_ids(lambda _: None, lambda *_: None),
    "ids of results, made by the agent": with_ids(lambda id: f"tool-{id}", lambda *_: ""),
    "named results": named_results,
    "the same ids in every step": with_ids(lambda id: id[0], lambda id, _: id[0]),
    # Some gateways number the calls; 0 is an id, too.
    "numbers": with_ids(lambda id: ord(id[0]) - ord("a"), lambda _, n: n),
}


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_calls_are_paired_by_order(change: str, width: int) -> None:
    steps = [chat_step([chat_call(f"{c}{n}") for c in "abc"[:width]]) for n in range(4)]
    for n, step in enumerate(steps):
        for at, item in enumerate(step[1:]):
            item["content"] = f"result {n} {at}"
    body = {"messages": [ASK, *(CHANGES[change](item) for step in steps for item in step)]}
    transcript = read("chat", body)
    assert len(transcript.call_pairs.call_of_result) == 4 * width
    assert not transcript.call_pairs.unpaired_results
    messages = without(transcript, *results_of(transcript)[: 2 * width])["messages"]
    assert messages == [ASK, *body["messages"][1 + 2 * (width + 1) :]]
    # An incremental read gives the same pairs.
    incremental = DIALECTS["chat"].read(
        body, read("chat", {"messages": body["messages"][: 2 + width]})
    )
    assert incremental.reused_count
    assert incremental.messages == transcript.messages


def test_function_calls_of_older_api_are_paired() -> None:
    def step(n: int) -> list[Json]:
        called = {"name": "look", "arguments": "{}"}
        return [
            {"role": "assistant", "content": f"Step {n}.", "function_call": called},
            {"role": "function", "name": "look", "content": f"result {n}"},
        ]

    body = {"messages": [ASK, *step(0), *step(1), *step(2)]}
    transcript = read("chat", body)
    assert len(transcript.call_pairs.call_of_result) == 3
    messages = without(transcript, 2)["messages"]
    assert "function_call" not in messages[1] or messages[1] != body["messages"][1]
    assert "result 0" not in str(messages)
    assert messages[-2:] == body["messages"][-2:]


@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_other_formats_are_paired_by_order(dialect: str) -> None:
    key, call, step = STEPS[dialect]
    steps = [step([call(f"a{n}"), call(f"b{n}")]) for n in range(3)]

    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(item) for item in value]
        if isinstance(value, dict):
            return {
                k: bare(v) for k, v in value.items() if k not in ("id", "call_id", "tool_use_id")
            }
        return value

    body = {key: [ASK, *(bare(item) for step in steps for item in step)]}
    transcript = read(dialect, body)
    assert len(transcript.call_pairs.call_of_result) == 6
    new_body = without(transcript, *results_of(transcript)[:4])
    assert new_body[key] == [ASK, *body[key][-len(steps[0]) :]]


def test_result_without_id_does_not_take_a_later_results_call() -> None:
    step = chat_step([chat_call("a"), chat_call("b")])
    step[1] = {"role": "tool", "content": "of b, without an id"}
    step[2]["tool_call_id"] = "a"
    transcript = read("chat", {"messages": [ASK, *step]})
    assert transcript.call_pairs.call_of_result == {2: (1, 1), 3: (1, 0)}


def test_unknown_item_is_not_merged() -> None:
    odd = {"role": "assistant", "content": None, "tool_calls": [{"id": "", "function": {}}]}
    body = {"messages": [ASK, *chat_step([chat_call("a")], "Step."), odd, ASK]}
    transcript = read("chat", body)
    plan = MessagePlan(transcript.messages, [{"message": n, "calls": []} for n in (0, 1, 3)])
    assert odd in transcript.apply(plan)["messages"]
