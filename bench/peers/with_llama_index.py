"""LlamaIndex's `ChatMemoryBuffer`."""

from contextrender_bridge.engine.text.tokens import counter_for
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer


def make(_):
    counter = counter_for(None)

    def shorten(messages, tokens):
        known = [
            ChatMessage(
                role=message["role"],
                content=message.get("content") or "",
                additional_kwargs={"position": position},
            )
            for position, message in enumerate(messages)
        ]
        memory = ChatMemoryBuffer.from_defaults(
            chat_history=known,
            token_limit=tokens,
            tokenizer_fn=lambda text: range(counter.text(text)),
        )
        return [messages[kept.additional_kwargs["position"]] for kept in memory.get()]

    return shorten
