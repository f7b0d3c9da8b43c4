"""Draw one model call: its budget, what its provider reported, its prompt and its answer."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from contextrender_bridge.base.prices import Price
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import agent_text, new_table
from contextrender_bridge.printing import printable

MARK_COMPLETE, MARK_EXCERPT, MARK_OMITTED = "█", "▒", "·"
MARK_BY_DISPLAY = {"complete": MARK_COMPLETE, "omitted": MARK_OMITTED}
"""The marks of messages by the form in which they are shown; `MARK_EXCERPT` is for all others."""
ERROR_STATUS = 400


def provider_line(turn: Json, price: Json | None) -> str:
    """Return a line with the usage, cost, times and error of a call's reply from the provider.

    It is empty if none of them was reported. `turn` is the call in a reply of `timeline`. `price`
    has the model's dollars per token; it is None if the model has no price.
    """
    facts: list[str] = []
    if turn["usage"]:
        usage = Usage(**turn["usage"])
        cached = f" ({usage.cache_read:,} from the cache)" if usage.cache_read else ""
        facts.append(f"{usage.prompt:,} prompt tokens{cached}, {usage.output:,} of output")
        if price:
            facts.append(f"${Price(**price).of(usage):.4f}")
    if turn["reply_ms"]:
        first, last = turn["first_byte_ms"] / 1000, turn["reply_ms"] / 1000
        facts.append(f"first byte after {first:.1f} s, whole answer after {last:.1f} s")
    # The provider refused the call, or its reply broke off.
    if turn["status"] >= ERROR_STATUS:
        facts.append(" ".join(("failed with", str(turn["status"]), turn["error"])).rstrip())
    elif turn["error"]:
        facts.append(f"the reply ended with the error {turn['error']}")
    return f"provider: {turn['model']} {'; '.join(facts)}" if facts else ""


def draw_call(view: Json, session: str, answer: Json | None, provider: str = "") -> RenderableType:
    """Return a call as it is printed: its tokens, how each message was shown, and its answer.

    `view` is the reply of `get_call`. `answer` is None if the call has none. `provider` is the line
    that `provider_line` returns.
    """
    call = view["explain"]
    head = Text.assemble(
        agent_text(session, "bold"),
        f"  turn {call['turn']} of {view['turn_count']}: {call['tokens_after']} of {call['budget']}"
        f" tokens ({call['tokens_before']} in all), {call['policy']}",
    )
    head.append(f"\n{printable(provider)}" if provider else "", "dim")
    warnings = [agent_text(warning, "yellow") for warning in call["warnings"]]
    answer_lines = draw_answer(answer) if answer else []
    return Group(head, *warnings, _messages_table(view["messages"]), *answer_lines)


def _messages_table(messages: list[Json]) -> Table:
    """Return a table with a row for each message, and for each gap between listed messages.

    A gap is a row that counts the messages that the reply leaves out.
    """
    table = new_table("#", "turn", "tokens", "", text_columns=("",))
    table.add_column("message", ratio=1)
    next_position = 0
    for message in messages:
        gap = message["position"] - next_position
        if gap > 0:
            table.add_row("", "", "", "…", f"{gap:,} earlier", style="dim")
        next_position = message["position"] + 1
        _add_message(table, message)
    return table


def _add_message(table: Table, message: Json) -> None:
    """Add a row with a message, or with its calls if it has no text.

    The mark shows how the prompt has the message. The row is dim if the prompt omits it.
    """
    calls = message["calls"]
    # A message with a call in the prompt is shown, even if its text is omitted.
    has_shown_call = any(tool_call["in_prompt"] for tool_call in calls)
    display = "complete" if has_shown_call else message["display"]
    call_texts = [f"{tool_call['name']} {tool_call['text']}" for tool_call in calls]
    table.add_row(
        str(message["position"]),
        str(message["turn"]),
        str(message["tokens"] + sum(tool_call["tokens"] for tool_call in calls)),
        MARK_BY_DISPLAY.get(display, MARK_EXCERPT),
        Text.assemble(
            agent_text(message["name"] or message["role"], "bold"),
            " ",
            agent_text(message["text"] or " ".join(call_texts), max_length=200),
        ),
        style="dim" if display == "omitted" else "",
    )


def draw_answer(answer: Json) -> list[RenderableType]:
    """Return lines with the answer's position, the beginning of its text, and its calls."""
    lines: list[RenderableType] = [Text(f"\nanswer, message {answer['position']}:", "bold")]
    if answer["text"]:
        lines.append(agent_text(answer["text"]))
        if (hidden_count := answer["length"] - len(answer["text"])) > 0:
            lines.append(Text(f"… {hidden_count:,} more characters", "dim"))
    for call in answer["calls"]:
        name = agent_text(call["name"], "bold")
        lines.append(Text.assemble(("→ ", "dim"), name, " ", agent_text(call["arguments"])))
    return lines
