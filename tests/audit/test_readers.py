"""Special cases of session formats and files of other programs."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.claude import read_claude
from contextrender_bridge.audit.codex import read_codex
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.run_costs import costs_by_model
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

from tests.support.transcripts import assistant, step, user


def write(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n")
    return path


def answer_line(uuid: str, id: str, block: Json, output: int) -> Json:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": output}
    message = {"id": id, "model": "claude-x", "role": "assistant", "content": [block]}
    return {"type": "assistant", "uuid": uuid, "message": {**message, "usage": usage}}


def user_line(uuid: str, content: object) -> Json:
    return {"type": "user", "uuid": uuid, "message": user(content)}


def use(id: str) -> Json:
    return {"type": "tool_use", "id": id, "name": "look", "input": {"at": id}}


def result(id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": f"seen {id}"}


def read(place: Path, reader: Callable[[Path, AuditInput], None] = read_claude) -> AuditInput:
    audit = AuditInput()
    reader(place, audit)
    return audit.merge_copies()


def test_claude_parallel_calls_are_one_answer_with_last_usage(tmp_path: Path) -> None:
    write(
        tmp_path / "projects" / "p" / "s.jsonl",
        user_line("1", "Look."),
        answer_line("2", "m1", use("a"), 1),
        user_line("3", [result("a")]),
        answer_line("4", "m1", use("b"), 40),
        user_line("5", [result("b")]),
        "{broken",
        {"type": "never heard of"},
        answer_line("6", "<x>", {"type": "text", "text": "Done."}, 5),
    )
    audit = read(tmp_path)
    (run,) = audit.runs
    assert [message["role"] for message in run.messages] == [
        *("user", "assistant", "tool", "tool", "assistant")
    ]
    assert [call["id"] for call in run.messages[1]["tool_calls"]] == ["a", "b"]
    assert [usage.output for usage in run.usage] == [40, 5]
    assert audit.counts["damaged lines"] == audit.counts["unknown lines"] == 1


def test_claude_forks_count_once_and_compactions_start_new_run(tmp_path: Path) -> None:
    first = [
        user_line("1", "Look."),
        answer_line("2", "m1", use("a"), 1),
        user_line("3", [result("a")]),
    ]
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "compactMetadata": {"preservedMessages": {"uuids": ["3"]}},
    }
    after = [boundary, user_line("4", "So far: all is well."), answer_line("5", "m2", use("b"), 1)]
    write(tmp_path / "projects" / "p" / "s.jsonl", *first, *after)
    write(tmp_path / "projects" / "p" / "t.jsonl", *first, answer_line("6", "m3", use("c"), 1))
    audit = read(tmp_path)
    assert [(run.task, run.calls, len(run.usage)) for run in audit.runs] == [
        ("s", 1, 1),
        ("s", 1, 1),
        ("t", 2, 1),
    ]
    assert [m["role"] for m in audit.runs[1].messages] == ["tool", "user", "assistant"]


def test_codex_copied_history_is_free_and_input_includes_cached(tmp_path: Path) -> None:
    def count(total: int) -> Json:
        last = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 2}
        last["cache_write_input_tokens"] = 10
        info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}}
        return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}

    call = {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "seen"}
    write(
        tmp_path / "sessions" / "2026" / "rollout-x.jsonl",
        {"type": "session_meta", "payload": {"id": "x", "subagent_history_start_ordinal": 3}},
        {"type": "turn_context", "payload": {"model": "gpt-x"}},
        count(1),
        {"type": "response_item", "payload": call},
        {"type": "response_item", "payload": output},
        count(2),
        count(2),
    )
    (run,) = read(tmp_path, read_codex).runs
    assert run.usage == [Usage("gpt-x", 30, 60, 10, output=2)]
    assert [message["role"] for message in run.messages] == ["assistant", "tool"]


def test_codex_text_and_calls_of_one_answer_are_one_call(tmp_path: Path) -> None:
    text = [{"type": "output_text", "text": "I look."}]
    calls = [
        {"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"} for id in "ab"
    ]
    outputs = [{"type": "function_call_output", "call_id": id, "output": "seen"} for id in "ab"]
    message = {"type": "message", "role": "assistant", "content": text}
    items = [message, *calls, *outputs, message]
    write(
        tmp_path / "sessions" / "rollout-x.jsonl",
        *({"type": "response_item", "payload": item} for item in items),
    )
    (run,) = read(tmp_path, read_codex).runs
    assert [message["role"] for message in run.messages] == [
        "assistant",
        *["tool"] * 2,
        "assistant",
    ]
    assert run.messages[0]["content"] == "I look."
    assert [call["id"] for call in run.messages[0]["tool_calls"]] == ["a", "b"]
    assert run.calls == 2


CHAT = [user("Look."), *step("a", "look", "{}", "seen a"), assistant("Done.")]
BLOCKS = [user("Look."), assistant([use("a")]), user([result("a")]), assistant("Done.")]
PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "Look."}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "a", "name": "look", "arguments": {}}],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "a", "result": "seen a"}]},
]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]


def span(conversation: str, **attributes: object) -> Json:
    span_attributes = {
        "gen_ai.conversation.id": conversation,
        "gen_ai.request.model": "gpt-x",
        **attributes,
    }
    values = [
        {"key": key, "value": {"intValue" if isinstance(v, int) else "stringValue": v}}
        for key, v in span_attributes.items()
    ]
    return {"spanId": str(len(attributes)), "attributes": values}


LAST = {
    "gen_ai.usage.input_tokens": 9,
    "gen_ai.usage.output_tokens": 2,
    "gen_ai.usage.cache_read.input_tokens": 4,
    "gen_ai.input.messages": json.dumps(PARTS),
    "gen_ai.output.messages": json.dumps(ANSWER),
}
CALLS = [span("c", **{"gen_ai.usage.input_tokens": 5}), span("c", **LAST)]
SPANS = {"resourceSpans": [{"scopeSpans": [{"spans": CALLS}]}]}


@pytest.mark.parametrize(
    "value",
    [CHAT, {"model": "m", "messages": CHAT}, {"system": "Be.", "messages": BLOCKS}, BLOCKS, SPANS],
)
def test_each_file_format_is_read(tmp_path: Path, value: object) -> None:
    (run,) = read(write(tmp_path / "file.json", value), read_files).runs
    roles = [message["role"] for message in run.messages if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert run.messages[-2]["content"] in ("seen a", [{"type": "text", "text": "seen a"}])
    if value == SPANS:
        assert run.usage == [Usage("gpt-x", 5), Usage("gpt-x", 5, 4, output=2)]


SYSTEM_BLOCKS = [{"type": "text", "text": text} for text in ("Be exact.", "Be brief.")]
BILLING_BLOCK = {"type": "text", "text": "x-anthropic-billing-header: cch=1"}
INSTRUCTIONS = [{"type": "text", "content": "Be exact."}, {"type": "text", "content": "Be brief."}]


@pytest.mark.parametrize(
    "request_or_span",
    [
        {"messages": [{"role": "system", "content": SYSTEM_BLOCKS}, *CHAT]},
        {"system": "Be exact.\nBe brief.", "messages": BLOCKS},
        {"system": SYSTEM_BLOCKS, "messages": BLOCKS},
        {"system": [BILLING_BLOCK, *SYSTEM_BLOCKS], "messages": CHAT[:1] + CHAT[-1:]},
        {"instructions": "Be exact.\nBe brief.", "input": CHAT[:1] + CHAT[-1:]},
        span("c", **LAST, **{"gen_ai.system_instructions": json.dumps(INSTRUCTIONS)}),
    ],
)
def test_system_prompt_is_read(tmp_path: Path, request_or_span: Json) -> None:
    (run,) = read(write(tmp_path / "log.jsonl", request_or_span), read_files).runs
    texts = [message["content"] for message in run.messages if message["role"] == "system"]
    assert texts == ["Be exact.\nBe brief."] and run.messages[0]["content"] == texts[0]
    assert run.messages[1]["content"] == "Look." and len(run.times) == len(run.messages)


def test_changed_billing_header_continues_run(tmp_path: Path) -> None:
    def line(header: str, length: int) -> Json:
        system = [{**BILLING_BLOCK, "text": f"{BILLING_BLOCK['text']}{header}"}, *SYSTEM_BLOCKS]
        return {"request": {"model": "m", "system": system, "messages": BLOCKS[:length]}}

    audit = read(write(tmp_path / "log.jsonl", line("1", 1), line("2", 4)), read_files)
    assert [len(run.messages) for run in audit.runs] == [5]


def test_text_as_input_begins_run(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 1}
    answer = [{"type": "message", "role": "assistant", "content": "Done."}]
    response = {"output": answer, "usage": usage}
    lines = [
        {"request": {"model": "m", "instructions": "Be.", "input": value}, "response": response}
        for value in ("Look.", [*CHAT[:1], *answer, user("Go on.")])
    ]
    audit = read(write(tmp_path / "log.jsonl", *lines, {"input": "no request"}), read_files)
    assert [(len(run.messages), len(run.usage)) for run in audit.runs] == [(5, 2)]
    assert audit.counts["unknown lines"] == 1


def test_spans_of_two_traces_are_two_runs(tmp_path: Path) -> None:
    def line(trace: str, span: str) -> Json:
        span_attributes = {
            "gen_ai.usage.input_tokens": 5,
            "gen_ai.input.messages": json.dumps(PARTS),
        }
        return {"context": {"trace_id": trace, "span_id": span}, "attributes": span_attributes}

    lines = [line("a", "1"), line("a", "2"), line("b", "3"), line("b", "3")]
    audit = read(write(tmp_path / "spans.jsonl", *lines), read_files)
    assert [len(run.usage) for run in audit.runs] == [2, 1]


def test_log_lines_with_responses_have_usage(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 10}
    response = {"model": "gpt-5.1", "choices": [{"message": CHAT[-1]}], "usage": usage}
    request = {"model": "gpt-5.1", "messages": CHAT[:-1]}
    path = tmp_path / "log.jsonl.gz"
    line = json.dumps({"request": request, "response": response})
    path.write_bytes(gzip.compress(f"{line}\nnot json\n\n".encode()))
    audit = read(path, read_files)
    (run,) = audit.runs
    assert run.calls == 2 and audit.counts["damaged lines"] == 1
    (bill,) = costs_by_model(audit.runs)
    assert (bill.calls, bill.prompt, bill.output) == (1, 1000, 10)
    assert bill.dollars is not None and bill.dollars > 0
    with pytest.raises(CommandError, match="there is no"):
        read_files(tmp_path / "nothing", audit)


@pytest.mark.parametrize("field", ["messages", "input"])
def test_interleaved_requests_are_grouped_into_runs(tmp_path: Path, field: str) -> None:
    def line(task: str, rounds: int) -> Json:
        items: list[Json] = [user(task)]
        for number in range(rounds):
            items += [assistant(f"Step {number}."), user("Go on.")]
        usage = {"input_tokens": 5, "output_tokens": 1}
        return {"request": {"model": "m", field: items}, "response": {"usage": usage}}

    lines = [line(task, rounds) for rounds in range(3) for task in ("Look.", "Mend.")]
    audit = read(write(tmp_path / "log.jsonl", *lines), read_files)
    assert [(len(run.messages), len(run.usage)) for run in audit.runs] == [(5, 3), (5, 3)]
