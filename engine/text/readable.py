"""A transcript as text for a model to read."""

from collections.abc import Sequence

from engine.text.tokens import call_parts, content_text, well_formed
from engine.text.transcript import Json


def transcript_text(messages: Sequence[Json], start: int) -> str:
    """Messages in order, each under a line with its position (from `start`) and who speaks."""
    names: dict[str, str] = {}
    parts: list[str] = []
    for position, message in enumerate(messages, start):
        role = str(message["role"])
        text = content_text(message.get("content")).strip()
        if role == "tool":
            name = names.get(str(message.get("tool_call_id")), "")
            parts.append(f"[{position}] result of {name or 'a tool call'}:\n{text}")
        elif text:
            parts.append(f"[{position}] {role}:\n{text}")
        for call in (message.get("tool_calls") or ()) if role == "assistant" else ():
            name, arguments = call_parts(call)
            names[call["id"]] = name
            parts.append(f"[{position}] call of {name}: {arguments}")
    return well_formed("\n".join(parts))
