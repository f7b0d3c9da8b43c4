"""Requests made of generated histories, compared with a model of the providers' rules.

The model describes steps, not requests. It has the calls of each step that the prompt shows, the
signature of the first of these calls, and the texts, thinking, strays and references that every
prompt shows. The model and `tests.support.provider_rules` share no code with the product.
`make fuzz` sets `FUZZ_EXAMPLES`.
"""

import copy
import json
from dataclasses import dataclass
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.dialects.message_plan import OMITTED_TEXT
from hypothesis import given
from hypothesis import strategies as st

from tests.support.provider_rules import SIGNATURE, faults, newest, signature
from tests.support.strategies import modest

FORMATS = [name for name in DIALECTS if name != "observations"]
IDS = ("own", "none", "empty", "null", "repeated")
SIGNED = ("none", "google", "litellm", "gateway")
TEXTS = st.sampled_from(["Step.", "Weiter: äöü €", "步骤 一", "Done \U0001f600", "a\u2028b"])
EXCERPT = "[a part of it]"
ASK: Json = {"role": "user", "content": "Find the fault."}


@dataclass
class Step:
    """One answer of the model with its calls, and the messages after it."""

    number: int
    text: str
    thinks: bool
    width: int
    signed: str
    asks: bool
    """Whether a user message follows."""
    stray: bool
    """Whether a result follows that has no call in the request."""

    def names(self) -> list[str]:
        return [f"{letter}{self.number}" for letter in "abc"[: self.width]]

    def call_id(self, letter: str, ids: str) -> Any:
        """Return the id of a call; "none" means no id field."""
        return {"own": f"{letter}{self.number}", "repeated": letter, "empty": "", "null": None}[ids]


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    generated = []
    for number in range(draw(st.integers(1, 6))):
        text, thinks = draw(st.just("") | TEXTS), draw(st.booleans())
        width = draw(st.integers(0 if text else 1, 3))
        signed = draw(st.sampled_from(SIGNED))
        asks = not width or draw(st.integers(0, 4)) == 0
        generated.append(
            Step(number, text and f"{text} {number}.", thinks, width, signed, asks, False)
        )
        generated[-1].stray = bool(width) and asks and draw(st.integers(0, 5)) == 0
    return generated


def sign(call: Json, step: Step) -> Json:
    value = f"SIG{step.number}"
    fields: Json = {
        "none": {},
        "google": {"extra_content": {"google": {SIGNATURE: value}}},
        "litellm": {"provider_specific_fields": {SIGNATURE: value}},
        "gateway": {SIGNATURE: value},
    }
    return {**call, **fields[step.signed]}


def with_id(item: Json, name: str, step: Step, letter: str, ids: str) -> Json:
    return item if ids == "none" else {name: step.call_id(letter, ids), **item}


def chat(step: Step, ids: str) -> list[Json]:
    calls, results = [], []
    for place, letter in enumerate("abc"[: step.width]):
        function = {"name": "look", "arguments": json.dumps({"at": letter})}
        call = with_id({"type": "function", "function": function}, "id", step, letter, ids)
        calls.append(call if place else sign(call, step))
        result = {"role": "tool", "content": f"result {letter}{step.number}"}
        results.append(with_id(result, "tool_call_id", step, letter, ids))
    answer: Json = {"role": "assistant", "content": step.text or None}
    if step.thinks:
        answer["reasoning_content"] = f"thought {step.number}"
    if calls:
        answer["tool_calls"] = calls
    stray = {"role": "tool", "tool_call_id": f"gone-{step.number}", "content": "stray"}
    questions = [{"role": "user", "content": f"And {step.number}?"}] if step.asks else []
    return [answer, *results, *([stray] if step.stray else []), *questions]


def messages(step: Step, ids: str) -> list[Json]:
    blocks: list[Json] = []
    if step.thinks:
        value = f"thought {step.number}"
        blocks.append({"type": "thinking", "thinking": value, "signature": f"T{step.number}"})
    blocks += [{"type": "text", "text": step.text}] if step.text else []
    results = []
    for place, letter in enumerate("abc"[: step.width]):
        call = {"type": "tool_use", "name": "look", "input": {"at": letter}}
        call = with_id(call, "id", step, letter, ids)
        blocks.append(call if place else sign(call, step))
        result = {"type": "tool_result", "content": f"result {letter}{step.number}"}
        results.append(with_id(result, "tool_use_id", step, letter, ids))
    if step.stray:
        stray = {"type": "tool_result", "tool_use_id": f"gone-{step.number}", "content": "stray"}
        results.append(stray)
    if step.asks:
        results.append({"type": "text", "text": f"And {step.number}?"})
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


def responses(step: Step, ids: str) -> list[Json]:
    items: list[Json] = []
    if step.thinks:
        items.append({"type": "reasoning", "summary": [], "encrypted_content": f"T{step.number}"})
    if step.text:
        content = [{"type": "output_text", "text": step.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    results = []
    for place, letter in enumerate("abc"[: step.width]):
        call = {"type": "function_call", "name": "look", "arguments": json.dumps({"at": letter})}
        call = with_id(call, "call_id", step, letter, ids)
        items.append(call if place else sign(call, step))
        output = {"type": "function_call_output", "output": f"result {letter}{step.number}"}
        results.append(with_id(output, "call_id", step, letter, ids))
    if step.stray:
        items_after = {"type": "item_reference", "id": f"fc_{step.number}"}
        output = {"type": "function_call_output", "call_id": f"gone-{step.number}"}
        results += [items_after, {**output, "output": "stray"}]
    questions = [{"role": "user", "content": f"And {step.number}?"}] if step.asks else []
    return [*items, *results, *questions]


MAKERS: dict[str, Any] = {
    "chat": ("messages", chat),
    "messages": ("messages", messages),
    "responses": ("input", responses),
}


def without_strays(dialect: str, body: Json) -> Json:
    """Return the body without unpaired results and references, which are always kept."""
    key = MAKERS[dialect][0]

    def is_stray(item: Any) -> bool:
        fields = item if isinstance(item, dict) else {}
        ids = [fields.get(name) for name in ("tool_call_id", "call_id", "tool_use_id")]
        is_named = any(str(name).startswith("gone-") for name in ids)
        return is_named or fields.get("type") == "item_reference"

    items = []
    for item in body[key]:
        if is_stray(item):
            continue
        if isinstance(item.get("content"), list):
            content = [block for block in item["content"] if not is_stray(block)]
            item = {**item, "content": content}
        items.append(item)
    return {**body, key: items}


def calls_in(dialect: str, body: Json) -> list[Json]:
    """Return all calls of a body in order."""
    if dialect == "responses":
        return [item for item in body["input"] if item.get("type") == "function_call"]
    if dialect == "chat":
        return [call for item in body["messages"] for call in item.get("tool_calls") or ()]
    blocks = [
        block
        for item in body["messages"]
        for block in (item["content"] if isinstance(item["content"], list) else ())
    ]
    return [block for block in blocks if block["type"] == "tool_use"]


def without_signature(call: Json) -> Json:
    names = ("extra_content", "provider_specific_fields", SIGNATURE)
    return {name: value for name, value in call.items() if name not in names}


@pytest.mark.parametrize("dialect", FORMATS)
@given(data=st.data())
@modest
def test_provider_gets_valid_request_for_any_plan(dialect: str, data: st.DataObject) -> None:
    key, make = MAKERS[dialect]
    history, ids = data.draw(steps()), data.draw(st.sampled_from(IDS))
    body: Json = {"model": "m", key: [ASK, *(i for step in history for i in make(step, ids))]}
    before = copy.deepcopy(body)
    transcript = dialect_of(dialect, body).read(body)
    assert body == before
    pairs = transcript.call_pairs.call_of_result
    assert len(pairs) == sum(step.width for step in history)
    omitted = {result for result in pairs if data.draw(st.booleans())}
    # Keep every other text, because the service drops texts only if the texts alone do not fit.
    remaining_calls = {pairs[result] for result in pairs if result not in omitted}
    cut = {result for result in pairs.keys() - omitted if data.draw(st.booleans())}
    rows = [
        {
            "message": place,
            "calls": [n for p, n in sorted(remaining_calls) if p == place],
            "text": EXCERPT if place in cut else None,
        }
        for place, message in enumerate(transcript.messages)
        if place not in omitted
        and (message["role"] != "assistant" or message["content"] or place in dict(remaining_calls))
    ]
    new_body = transcript.apply(transcript.plan(rows))
    assert body == before
    text = json.dumps(new_body, ensure_ascii=False)

    # If a provider accepts the full history, it also accepts the prompt.
    if not faults(dialect, without_strays(dialect, before)):
        assert not faults(dialect, without_strays(dialect, new_body)), new_body
    # The prompt has all texts, strays and references.
    for step in history:
        assert json.dumps(step.text, ensure_ascii=False)[1:-1] in text
        assert not step.stray or f"gone-{step.number}" in text
        if step.thinks and step.text:
            assert f"T{step.number}" in text or dialect == "chat"
    # The model's newest message is unchanged.
    original_item, new_item = newest(dialect, before), newest(dialect, new_body)
    assert (
        new_item[len(new_item) - len(original_item) :] if dialect == "responses" else new_item
    ) == original_item
    # The calls keep their order, and the first call of each step has the signature of its step.
    original = [without_signature(call) for call in calls_in(dialect, before)]
    places, at = [], -1
    for sent_call in calls_in(dialect, new_body):
        at = original.index(without_signature(sent_call), at + 1)
        places.append(at)
    owners = [(step, n) for step in history for n in range(step.width)]
    if ids == "own":
        for step in history:
            remaining = [p for p in places if owners[p][0] is step]
            if remaining and step.signed != "none":
                first = calls_in(dialect, new_body)[places.index(remaining[0])]
                assert signature(first) == f"SIG{step.number}"
        # The prompt has the call of each visible result, and at most a line about each other call.
        for result, call in pairs.items():
            step, number = owners[sorted(pairs.values()).index(call)]
            name = f"result {'abc'[number]}{step.number}"
            assert (name in text) == (result not in omitted | cut)
    assert text.count(EXCERPT) == len(cut)
    # Only results of the newest message and of one message before it have such a line.
    assert text.count(OMITTED_TEXT) <= 3 + 1
