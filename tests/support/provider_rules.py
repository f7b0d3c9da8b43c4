"""A double of strict providers: their rules for requests, written independently of the product.

`faults` lists what they would refuse. Each rule comes from a provider's documentation.
"""

from typing import Any

from contextrender_bridge.base.wire import Json

SIGNATURE = "thought_signature"


def faults(dialect: str, body: Json) -> list[str]:
    """Return what a strict provider would refuse in a request of this format."""
    return {"chat": _chat, "messages": _messages, "responses": _responses}[dialect](body)


def signature(call: Json) -> Any:
    """Return the signature of a call, in Gemini's field or in a gateway's copy of it."""
    google = (call.get("extra_content") or {}).get("google") or {}
    fields = call.get("provider_specific_fields") or call.get("provider_data") or {}
    return google.get(SIGNATURE) or fields.get(SIGNATURE) or call.get(SIGNATURE)


def items_without_signature(dialect: str, body: Json) -> list[int]:
    """Return the items of the steps whose first call is not signed, which Gemini requires."""
    if dialect == "chat":
        steps = {n: i["tool_calls"] for n, i in enumerate(body["messages"]) if i.get("tool_calls")}
    elif dialect == "messages":
        steps = {
            n: [block for block in item["content"] if block["type"] == "tool_use"]
            for n, item in enumerate(body["messages"])
            if item["role"] == "assistant" and isinstance(item["content"], list)
        }
    else:
        steps, last = {}, ""
        for n, item in enumerate(body["input"]):
            if item.get("type") == "function_call" and last != "function_call":
                steps[n] = [item]
            last = item.get("type", "")
    return [n for n, calls in steps.items() if calls and not signature(calls[0])]


def newest(dialect: str, body: Json) -> Any:
    """Return the model's newest message; for Responses, its newest consecutive items."""
    if dialect != "responses":
        return next((i for i in reversed(body["messages"]) if i["role"] == "assistant"), None)
    items: list[Any] = []
    for item in reversed(body["input"]):
        if _is_models(item):
            items.insert(0, item)
        elif items:
            break
    return items


def _is_models(item: Json) -> bool:
    kinds = ("reasoning", "function_call", "custom_tool_call")
    return item.get("type") in kinds or item.get("role") == "assistant"


def _chat(body: Json) -> list[str]:
    problems: list[str] = []
    open_ids: list[str] = []
    before = ""
    for number, item in enumerate(body["messages"]):
        role = item["role"]
        if role in ("tool", "function"):
            name = item.get("tool_call_id") or ""
            if name in open_ids:
                open_ids.remove(name)
            else:
                problems.append(f"{number}: a result without its call")
        else:
            if open_ids:
                problems.append(f"{number}: {len(open_ids)} calls without a result")
            old = [""] if item.get("function_call") else []
            open_ids = [call.get("id") or "" for call in item.get("tool_calls") or ()] + old
            if role == before == "assistant":
                problems.append(f"{number}: two of the model's messages in a row")
        before = role
    return problems + (["the newest calls have no result"] if open_ids else [])


def _messages(body: Json) -> list[str]:
    problems: list[str] = []
    open_ids: list[str] = []
    before = ""
    for number, item in enumerate(body["messages"]):
        blocks = item["content"] if isinstance(item["content"], list) else []
        result_ids = [b.get("tool_use_id") or "" for b in blocks if b["type"] == "tool_result"]
        if sorted(result_ids) != sorted(open_ids):
            problems.append(f"{number}: results and calls differ")
        open_ids = [b.get("id") or "" for b in blocks if b["type"] == "tool_use"]
        if item["role"] == before == "assistant":  # the API joins messages of the user
            problems.append(f"{number}: two of the model's messages in a row")
        if not item["content"]:
            problems.append(f"{number}: no content")
        before = item["role"]
        kinds = [b["type"] for b in blocks]
        if "thinking" in kinds and kinds[0] != "thinking" and item["role"] == "assistant":
            problems.append(f"{number}: does not begin with thinking")
        if kinds and kinds[-1] == "thinking":
            problems.append(f"{number}: ends with thinking")
        ids = [b.get("id") for b in blocks if b["type"] == "server_tool_use"]
        if any((b.get("caller") or {}).get("tool_id", ids) not in (*ids, ids) for b in blocks):
            problems.append(f"{number}: a call without the code that made it")
    return problems


def _responses(body: Json) -> list[str]:
    problems: list[str] = []
    open_ids: list[str] = []
    for number, item in enumerate(body["input"]):
        kind = item.get("type", "message")
        if kind == "function_call":
            open_ids.append(item.get("call_id") or "")
        elif kind == "function_call_output":
            name = item.get("call_id") or ""
            if name in open_ids:
                open_ids.remove(name)
            else:
                problems.append(f"{number}: an output without its call")
        elif kind == "reasoning":
            next_items = body["input"][number + 1 : number + 2]
            if not next_items or not _is_models(next_items[0]):
                problems.append(f"{number}: reasoning without what it led to")
    return problems + [f"no output for {name}" for name in open_ids]
