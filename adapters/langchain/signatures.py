"""Check the signatures and the reasoning of a step, whichever of its calls are omitted."""

from itertools import product
from typing import Any

from contextrender_bridge.adapters.langchain import SIGNATURES, _as_chat, _render_message
from contextrender_bridge.adapters.planning import RenderedHistory
from contextrender_bridge.dialects import MessagePlan
from contextrender_bridge.dialects.chat import ChatTranscript
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

IDS = ("a", "b", "c")


def shown_answer(results: tuple[bool, ...], content: Any, signatures: dict[str, str]) -> AIMessage:
    """Return the answer that remains if only some of the three results are shown.

    `results` says of each result whether it is shown, with its call. The answer has this `content`,
    and the signatures by call id.
    """
    calls = [{"name": "look", "args": {}, "id": name} for name in IDS]
    answer = AIMessage(content, tool_calls=calls, additional_kwargs={SIGNATURES: signatures})
    messages: list[AnyMessage] = [HumanMessage("go"), answer]
    messages += [ToolMessage("x", tool_call_id=name) for name in IDS]
    chat = ChatTranscript({"messages": [_as_chat(message) for message in messages]})
    shown_results = [number for number, is_shown in enumerate(results) if is_shown]
    entries = [{"message": 0, "calls": []}, {"message": 1, "calls": shown_results, "text": ""}]
    entries += [{"message": 2 + number, "calls": []} for number in shown_results]
    history = RenderedHistory(MessagePlan(chat.messages, entries), chat.positions)
    prompt = _render_message(answer, history, 1)
    assert isinstance(prompt, AIMessage)
    assert answer.additional_kwargs == {SIGNATURES: signatures}
    return prompt


def shown_signatures(results: tuple[bool, ...], signatures: dict[str, str]) -> list[Any]:
    """Return the signature of each call that remains, as in `shown_answer`."""
    prompt = shown_answer(results, "", signatures)
    signatures = prompt.additional_kwargs[SIGNATURES]
    assert signatures.keys() <= {call["id"] for call in prompt.tool_calls}
    return [signatures.get(call["id"]) for call in prompt.tool_calls]


def check_reasoning(results: tuple[bool, ...]) -> None:
    """Check that each call's block is shown with the reasoning before it, or both are omitted."""
    content = [
        {"type": kind, "call_id" if kind == "function_call" else "id": name}
        for name in IDS
        for kind in ("reasoning", "function_call")
    ]
    prompt = shown_answer(results, content, {})
    shown_ids = {name for name, is_shown in zip(IDS, results, strict=True) if is_shown}
    assert prompt.content == [
        block for block in content if (block.get("call_id") or block["id"]) in shown_ids
    ]


def check_cut_arguments() -> None:
    """Check that the cut arguments of a call are in the call and in its content block."""
    for block in ({"type": "tool_use", "input": {"a": 1}}, {"call_id": "a", "arguments": "{}"}):
        call = {"name": "look", "args": {"a": 1}, "id": "a"}
        answer = AIMessage([{**block, "id": "a"}], tool_calls=[call])
        chat = ChatTranscript({"messages": [_as_chat(answer)]})
        plan = MessagePlan(chat.messages, [{"message": 0, "calls": [0], "arguments": ['{"b": 2}']}])
        prompt = _render_message(answer, RenderedHistory(plan, chat.positions), 0)
        assert isinstance(prompt, AIMessage) and prompt.tool_calls[0]["args"] == {"b": 2}
        (shown_block,) = prompt.content
        assert isinstance(shown_block, dict)
        new_arguments = shown_block.get("input", shown_block.get("arguments"))
        assert new_arguments in ({"b": 2}, '{"b": 2}')


def main() -> None:
    """Check the answer for each subset of three calls that may be shown.

    The model's answer has no signature, one on its first call, or one on each of its first two.
    """
    check_cut_arguments()
    for results in product((True, False), repeat=3):
        if not any(results):
            continue
        check_reasoning(results)
        count = sum(results)
        assert shown_signatures(results, {}) == [None] * count
        assert shown_signatures(results, {"a": "SIG"}) == ["SIG", None, None][:count]
        shows_a, shows_b, _ = results
        first = "B" if shows_b and not shows_a else "A"
        second = "B" if shows_a and shows_b else None
        if shows_a or shows_b:
            signatures = shown_signatures(results, {"a": "A", "b": "B"})
            assert signatures == [first, second, None][:count]


if __name__ == "__main__":
    main()
