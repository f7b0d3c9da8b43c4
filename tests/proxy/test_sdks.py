"""The providers' own Python clients through the proxy: they read what comes back without fault."""

import uuid

import pytest

from tests.proxy.conftest import Setup
from tests.support.scripted_model import answer_chat, answer_messages, answer_responses, call, whole

TOOL = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "host_A1"}}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It is fine.", "annotations": []}],
}


def test_openai_chat(setup: Setup) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{setup.url}/s/{uuid.uuid4().hex}/v1", api_key="sk-x") as client:
        messages = [{"role": "user", "content": "hello"}]
        setup.model.script = [answer_chat(False, "It is fine.")]
        made = client.chat.completions.create(model="m", messages=messages)
        assert made.choices[0].message.content == "It is fine."
        setup.model.script = [answer_chat(True, "", [call("c1", "look", at="host_A1")])]
        text = ""
        for event in client.chat.completions.create(model="m", messages=messages, stream=True):
            for choice in event.choices:
                for piece in choice.delta.tool_calls or ():
                    text += piece.function.arguments or ""
        assert text == '{"at": "host_A1"}'
        setup.model.script = [whole({"error": {"message": "slow down"}}, 429)]
        with pytest.raises(openai.RateLimitError):
            client.with_options(max_retries=0).chat.completions.create(model="m", messages=messages)


def test_openai_responses(setup: Setup) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{setup.url}/v1", api_key="sk-x") as client:
        setup.model.script = [answer_responses(False, [MESSAGE])]
        assert client.responses.create(model="m", input="hello").output_text == "It is fine."
        setup.model.script = [answer_responses(True, [MESSAGE])]
        events = list(client.responses.create(model="m", input="hello", stream=True))
        assert events[-1].type == "response.completed"
        assert events[-1].response.output_text == "It is fine."


def test_anthropic(setup: Setup) -> None:
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=setup.url, api_key="sk-x") as client:
        asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
        setup.model.script = [answer_messages(False, [{"type": "text", "text": "It is fine."}])]
        assert client.messages.create(**asked).content[0].text == "It is fine."
        setup.model.script = [answer_messages(True, [TOOL], "tool_use")]
        with client.messages.stream(**asked) as got:
            made = got.get_final_message()
        assert made.content[0].input == {"at": "host_A1"}
        sent = setup.model.asked[-1]
        assert "sk-x" in (sent.header("x-api-key") or sent.header("authorization") or "")
