"""Check that the first shown call of a step is signed, whichever calls are omitted."""

from itertools import product
from typing import Any

from contextrender_bridge.adapters.langchain import SIGNATURES, _as_chat, _render_message
from contextrender_bridge.adapters.planning import RenderedHistory
from contextrender_bridge.dialects import MessagePlan
from contextrender_bridge.dialects.chat import ChatTranscript
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

IDS = ("a", "b", "c")


def shown_signatures(results: tuple[bool, ...], signatures: dict[str, str]) -> list[Any]:
    """Return the signature of each call in a prompt that has these results of three calls."""
    calls = [{"name": "look", "args": {}, "id": name} for name in IDS]
    answer = AIMessage("", tool_calls=calls, additional_kwargs={SIGNATURES: signatures})
    messages: list[AnyMessage] = [HumanMessage("go"), answer]
    messages += [ToolMessage("x", tool_call_id=name) for name in IDS]
    chat = ChatTranscript({"messages": [_as_chat(message) for message in messages]})
    shown_results = [number for number, is_shown in enumerate(results) if is_shown]
    entries = [{"message": 0, "calls": []}, {"message": 1, "calls": shown_results, "text": ""}]
    entries += [{"message": 2 + number, "calls": []} for number in shown_results]
    rendered = RenderedHistory(MessagePlan(chat.messages, entries), chat.places)
    prompt = _render_message(answer, rendered, 1)
    assert isinstance(prompt, AIMessage)
    assert answer.additional_kwargs == {SIGNATURES: signatures}
    signed = prompt.additional_kwargs[SIGNATURES]
    assert signed.keys() <= {call["id"] for call in prompt.tool_calls}
    return [signed.get(call["id"]) for call in prompt.tool_calls]


def main() -> None:
    """Check every selection of the three results."""
    for results in product((True, False), repeat=3):
        if any(results):
            count = sum(results)
            assert shown_signatures(results, {"a": "SIG"}) == ["SIG", None, None][:count]
            assert shown_signatures(results, {}) == [None] * count
            expected = ["B" if results[1] and not results[0] else "A", None, None]
            expected[1:] = ["B" if results[0] and results[1] else None, None]
            if not (results[2] and count == 1):
                assert shown_signatures(results, {"a": "A", "b": "B"}) == expected[:count]


if __name__ == "__main__":
    main()
