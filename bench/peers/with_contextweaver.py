"""contextweaver's context engine. What it gives is one text, made of items: they are told here."""

from contextweaver.adapters.openai_messages import from_openai_messages
from contextweaver.config import ContextBudget
from contextweaver.context.manager import ContextManager
from contextweaver.types import Phase

from engine.text.tokens import counter_for


def make(_):
    counter = counter_for(None)

    class Estimator:
        def estimate(self, text):
            return counter.text(text)

    def shorten(messages, tokens):
        manager = ContextManager(budget=ContextBudget(answer=tokens), estimator=Estimator())
        items = from_openai_messages(messages, into=manager)
        place = {item.id: number for number, item in enumerate(items)}
        task = next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
        kept = []

        def render(chosen):
            kept.extend(sorted(chosen, key=lambda item: place.get(item.id, len(place))))
            return "\n".join(item.text for item in chosen)

        pack = manager.build_sync(
            phase=Phase.answer, query=task, budget_tokens=tokens, renderer=render
        )
        return {"messages": [_message(item) for item in kept], "text": pack.prompt}

    return shorten


def _message(item):
    kind = item.kind.value
    if kind == "tool_result":
        id = (item.parent_id or item.id).rpartition(":")[2]
        return {"role": "tool", "tool_call_id": id, "content": item.text}
    if kind == "tool_call":
        id = item.id.rpartition(":")[2]
        name = item.metadata.get("name") or item.metadata.get("tool_name") or ""
        call = {"id": id, "type": "function", "function": {"name": name, "arguments": item.text}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    role = {"policy": "system", "user_turn": "user"}.get(kind, "assistant")
    return {"role": role, "content": item.text}
