"""LlamaIndex's `ChatMemoryBuffer`."""

from contextrender_bridge.engine.text.tokens import counter_for
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer


def make(_):
    counter = counter_for(None)

    def shorten(messages, tokens):
        converted = [
            ChatMessage(
                role=message["role"],
                content=message.get("content") or "",
                additional_kwargs={"position": position},
            )
            for position, message in enumerate(messages)
        ]
        memory = ChatMemoryBuffer.from_defaults(
            chat_history=converted,
            token_limit=tokens,
            tokenizer_fn=lambda text: range(counter.text(text)),
        )
        return [messages[message.additional_kwargs["position"]] for message in memory.get()]

    return shorten
