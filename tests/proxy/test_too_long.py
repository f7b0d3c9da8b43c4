"""If a provider refuses a prompt as too long, the retry and the next calls are smaller.

Long because each provider has its own wording, on one line each (E501).
"""
# ruff: noqa: E501

import asyncio
import gzip
import json
import socket
import uuid
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.provider import ReplyStart
from contextrender_bridge.proxy.refusals import Refusal
from multidict import CIMultiDict

from tests.proxy.conftest import Setup, Start
from tests.support.codings import COMPRESS
from tests.support.scripted_model import ModelRequest, Reply, json_reply, stream
from tests.support.transcripts import assistant, user

MOST_BYTES = 5_000
TEXT = "word " * 300
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


def body_of(dialect: str, steps: int = 4) -> Json:
    ask = user("Find the fault.")
    if dialect == "responses":
        items: list[Any] = []
        for n in range(steps):
            head = {"type": "function_call", "call_id": f"c{n}", "name": "look", "arguments": "{}"}
            output = {"type": "function_call_output", "call_id": f"c{n}", "output": TEXT}
            items += [head, output]
        return {"model": uuid.uuid4().hex, "store": False, "input": [ask, *items]}
    messages: list[Any] = []
    for n in range(steps):
        if dialect == "messages":
            use = {"type": "tool_use", "id": f"u{n}", "name": "look", "input": {}}
            result = {"type": "tool_result", "tool_use_id": f"u{n}", "content": TEXT}
            messages += [assistant([use]), user([result])]
        else:
            call = {"id": f"c{n}", "type": "function"}
            call["function"] = {"name": "look", "arguments": "{}"}  # type: ignore[assignment]
            messages.append(assistant(None, call))
            messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": TEXT})
    fields = {"max_tokens": 99} if dialect == "messages" else {}
    return {"model": uuid.uuid4().hex, **fields, "messages": [ask, *messages]}


def error(message: str, **fields: Any) -> Json:
    return {"error": {"message": message, **fields}}


# (status, error): wordings from the providers' documentation and public reports.
WORDINGS: list[tuple[int, Any]] = [
    (400, error("request (1300 tokens) exceeds the available context size (1000 tokens), try increasing it", type="exceed_context_size_error", n_prompt_tokens=1300, n_ctx=1000)),
    (400, error("Invalid request: Your request exceeded model token limit: 1000 (requested: 1300)")),
    (400, error("Prompt exceeds max length", code="1261")),
    (400, {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 1000 but the request contains 1300 tokens."}),
    (400, error("prompt token count of 1300 exceeds the limit of 1000", code="model_max_prompt_tokens_exceeded")),
    (400, error("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 1000]")),
    (400, error("prompt too long; exceeded max context length by 300 tokens")),
    (413, error("Request too large", code="request_too_large")),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    (400, error("This model's maximum context length is 1000 tokens. However, your messages resulted in 1300 tokens.", code="context_length_exceeded")),
    # Other wordings than the reported ones.
    (400, error("The input token count (1300) exceeds the maximum number of tokens allowed (1000).", status="INVALID_ARGUMENT")),
    (400, {"message": "Input is too long for requested model."}),
    (400, error("input length and `max_tokens` exceed context limit: 900 + 400 > 1000, decrease input length")),
    (500, error("litellm.ContextWindowExceededError: the prompt is longer than the model's context length")),
    (422, error("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1000. Given: 1300 `inputs` tokens; the prompt is too long")),
    (400, error("Please reduce the length of the messages or completion. Current length is 1300 while limit is 1000", param="messages")),
    (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"),
    (429, error("Request too large for gpt-x on tokens per min (TPM): Limit 1000, Requested 1300.", code="rate_limit_exceeded")),
    (400, error("Trying to keep the first 1300 tokens when context the overflows. However, the model is loaded with context length of only 1000 tokens")),
    (400, error("The number of input tokens (1300) exceeds the model's context window of 1000 tokens")),
    (503, b"Requested tokens exceed context window of 1000"),
    (400, error("Unable to submit request because the input token count is 1300 but model only supports up to 1000.")),
    (400, error("Prompt length 1300 is greater than max_seq_len 1000")),
    (413, error("Request body too large for own model. Max size: 1000 tokens.", code="tokens_limit_reached")),
    (422, {"error": "`inputs` must have less than 1000 tokens. Given: 1300", "error_type": "validation"}),
    (400, error("Total tokens of image and text exceed max message tokens")),
    (429, error("Extra usage is required for long context requests.", type="rate_limit_error")),
    (400, error("Total input length (1300) is too long for this model (max 1000)")),
    (400, error("Invalid 'messages[1].content': string too long. Expected a string with maximum length 4000, but got a string with length 6000 instead.")),
    (400, {"message": "length of prompt_tokens (1300) must be less than max_seq_len (1000)."}),
    (400, error("too many tokens: total number of tokens in the request cannot exceed 1000 - received 1300.")),
    # Bedrock's older models, SambaNova, OpenRouter without credits, Baidu, Zhipu, iFlytek, Qwen.
    (400, {"message": "Malformed input request: expected maxLength: 4000, actual: 6000, please reformat your input and try again."}),
    (400, error("Requested generation length 100 is not possible! The provided prompt is 1300 tokens long, but the maximum supported sequence length is just 1000!")),
    (402, error("Prompt tokens limit exceeded: 1300 > 1000. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account")),
    (400, {"error_code": 336007, "error_msg": "the max input characters is 4000"}),
    (400, error("Prompt 超长", code="1210")),
    (400, {"code": 10907, "message": "token数量超过上限。对话历史+问题的字数太多，需要精简输入。"}),
    (400, error("输入内容过长，请减少输入")),
    (400, error("Your prompt is 1300 tokens, but this model accepts at most 1000 tokens.")),
    (400, error("Model own supports a maximum of 1000 tokens, but 1300 were given.")),
    (400, error("The total number of tokens (1300) is over the limit (1000)")),
    (400, error("Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 3000 instead.", code="array_above_max_length")),
    # Fireworks, Databricks, AI21.
    (400, error("The prompt is too long: 1300, model maximum context length: 1000")),
    (400, {"error_code": "BAD_REQUEST", "message": "Exceeded max_input_len: 1300 > 1000"}),
    (422, {"detail": "Prompt has 1300 tokens, exceeding the maximum of 1000"}),
    (400, {"code": 5021, "message": "The estimated number of input and maximum output tokens (1300) exceeded this model context window limit (1000)."}),
]  # fmt: skip


class LimitedModel:
    """A double of a model that refuses more than `MOST_BYTES` with a given error."""

    def __init__(self, setup: Setup, refusal: Reply, answer: Reply | None = None) -> None:
        self.setup, self.refusal = setup, refusal
        self.answer = answer or json_reply({"id": "1", "usage": {}})
        self.sizes: list[int] = []
        setup.model.answer = self

    def __call__(self, request: ModelRequest) -> Reply:
        self.sizes.append(len(request.body))
        return self.refusal if len(request.body) > MOST_BYTES else self.answer


def reply_of(status: int, content: Any) -> Reply:
    return Reply([content], status) if isinstance(content, bytes) else json_reply(content, status)


@pytest.mark.parametrize(("steps", "budget"), [(4, "2000"), (8, "1600")])
@pytest.mark.parametrize(("status", "refusal"), WORDINGS)
def test_retry_and_next_call_are_smaller(
    setup: Setup, status: int, refusal: Any, steps: int, budget: str
) -> None:
    """This holds for a full history and for a rendered one."""
    model = LimitedModel(setup, reply_of(status, refusal))
    body, path = body_of("chat", steps), f"/s/{uuid.uuid4().hex}"
    headers = {"x-contextrender-budget": budget}
    first = setup.post(path + PATHS["chat"], body, **headers)
    first_sizes = list(model.sizes)
    assert len(first_sizes) <= 3
    assert first_sizes == sorted(first_sizes, reverse=True) and len(set(first_sizes)) == len(
        first_sizes
    )
    second = setup.post(path + PATHS["chat"], body, **headers)
    assert second.status_code == 200, (first_sizes, model.sizes)
    assert model.sizes[len(first_sizes)] < first_sizes[0]
    assert first.status_code == 200


STREAMS: dict[str, list[list[Any]]] = {
    "chat": [
        [error("This endpoint's maximum context length is 1000 tokens.", code=400)],
        [
            {"id": "c", "choices": [{"index": 0, "delta": assistant("")}]},
            {"error": {"message": "context_length_exceeded", "code": 502}, "choices": []},
        ],
        [
            {"choices": [], "prompt_filter_results": []},
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "", "refusal": None, "tool_calls": []}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "model_context_window_exceeded"}]},
        ],
        [{"object": "error", "type": "BadRequestError", "code": 400, "message": "The prompt is too long"}],
        # vLLM and LiteLLM, OpenRouter, Gemini, MiniMax.
        [error("This model's maximum context length is 1000 tokens.", code=400), "[DONE]"],
        [
            {"choices": [{"index": 0, "delta": assistant("")}]},
            {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": {"code": 400, "message": "The prompt is too long"}}]},
            "[DONE]",
        ],
        [[error("The input token count exceeds the maximum number of tokens allowed (1000).")]],
        [{"choices": None, "base_resp": {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"}}],
    ],
    "messages": [
        [{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 1300 tokens > 1000 maximum"}}],
        [
            {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 0}}},
            {"type": "ping"},
            {"type": "error", "error": {"type": "request_too_large", "message": "too large"}},
        ],
        [
            {"type": "message_start", "message": {"id": "m", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}},
        ],
        [{"error": "input is too long for requested model"}],
    ],
    "responses": [
        [{"type": "response.failed", "response": {"id": "r", "status": "failed", "error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}}}],
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
            {"type": "response.in_progress", "response": {"id": "r", "status": "in_progress"}},
            {"type": "error", "code": "context_length_exceeded", "message": "Your input exceeds the context window"},
        ],
        [{"detail": "The input (1300 tokens) is longer than the model's context length (1000 tokens)."}],
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "context_window_exceeded"}}},
        ],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "events"), [(dialect, events) for dialect in PATHS for events in STREAMS[dialect]]
)
def test_refusal_in_a_stream_is_retried(setup: Setup, dialect: str, events: list[Any]) -> None:
    refusal = stream(events)
    model = LimitedModel(setup, refusal, stream([{"type": "response.completed", "choices": []}]))
    body = {**body_of(dialect), "stream": True}
    path = f"/s/{uuid.uuid4().hex}{PATHS[dialect]}"
    response = setup.post(path, body, x_contextrender_budget="2000")
    assert "response.completed" in response.text
    assert model.sizes[0] > model.sizes[1]
    next_response = setup.post(path, body, x_contextrender_budget="2000")
    assert "response.completed" in next_response.text
    assert model.sizes[2] < model.sizes[0]


def compress_reply(reply: Reply, coding: str, size: int) -> Reply:
    """Compress a reply's body, and cut it after `size` bytes."""
    body = COMPRESS[coding](reply.body)
    headers = [*reply.headers, (b"content-encoding", coding.encode())]
    return Reply([body[:size], body[size:]], reply.status, headers, pause=0.02)


@pytest.mark.parametrize("coding", COMPRESS)
def test_refusal_in_a_compressed_stream_is_retried(setup: Setup, coding: str) -> None:
    """The stream's first piece has no text yet, such as the header of gzip."""
    refusal = compress_reply(stream(STREAMS["chat"][1]), coding, size=1)
    answer = compress_reply(stream([{"choices": [{"delta": {"content": "Yes."}}]}]), coding, size=1)
    model = LimitedModel(setup, refusal, answer)
    body = {**body_of("chat"), "stream": True}
    path = f"/s/{uuid.uuid4().hex}{PATHS['chat']}"
    reply = setup.post(path, body, x_contextrender_budget="2000")
    assert "Yes." in reply.text and len(model.sizes) == 2


async def read_start(body: Reply) -> ReplyStart:
    """Read a reply's start. Its chunks arrive one by one."""

    async def chunks() -> AsyncIterator[bytes]:
        for chunk in body.chunks:
            yield chunk

    headers = CIMultiDict((name.decode(), value.decode()) for name, value in body.headers)
    content = SimpleNamespace(iter_any=chunks)
    response: Any = SimpleNamespace(status=200, headers=headers, content=content)
    return await ReplyStart(response).read()


@pytest.mark.parametrize("coding", COMPRESS)
@pytest.mark.anyio
async def test_reply_cut_at_any_byte_is_a_refusal_or_an_answer(coding: str) -> None:
    refusal, answer = stream(STREAMS["chat"][1]), stream([{"choices": [{"delta": "Yes."}]}])
    for size in range(len(COMPRESS[coding](refusal.body))):
        start = await read_start(compress_reply(refusal, coding, size))
        assert start.refusal is not None, size
    for size in range(len(COMPRESS[coding](answer.body))):
        answer_start = await read_start(compress_reply(answer, coding, size))
        assert not answer_start.is_refused, size


@pytest.mark.parametrize(
    ("coding", "pieces"),
    [
        ("gzip", [b"no gzip"]),
        ("unheard-of", [b"?"]),
        ("gzip", [gzip.compress(b": ok\n\n"), b"no gzip"]),
        ("gzip", [gzip.compress(b"")] * 4_000),
    ],
)
def test_reply_that_is_not_decoded_is_soon_passed_on(coding: str, pieces: list[bytes]) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", coding.encode())]
    remaining_piece = b"more"
    start = asyncio.run(read_start(Reply([*pieces, remaining_piece], 200, headers)))
    assert not start.is_refused and remaining_piece not in start.chunks


@pytest.mark.parametrize("dialect", PATHS)
def test_next_call_is_smaller_after_refusal_within_text(setup: Setup, dialect: str) -> None:
    """The agent gets the refusal."""
    texts: Json = {
        "chat": {"choices": [{"index": 0, "delta": {"content": "I"}}]},
        "messages": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "I"}},
        "responses": {"type": "response.output_text.delta", "delta": "I"},
    }
    refusal = stream([texts[dialect], *STREAMS[dialect][0]])
    model = LimitedModel(setup, refusal, stream([{"type": "response.completed", "choices": []}]))
    body = {**body_of(dialect), "stream": True}
    path = f"/s/{uuid.uuid4().hex}{PATHS[dialect]}"
    assert setup.post(path, body, x_contextrender_budget="2000").content == refusal.body
    assert len(model.sizes) == 1
    setup.post(path, body, x_contextrender_budget="2000")
    assert model.sizes[1] < model.sizes[0]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ({"id": "r", "status": "failed", "error": {"code": "context_length_exceeded"}}, "application/json"),
        (error("This model's maximum context length is 1000 tokens."), "text/event-stream"),
        ({"base_resp": {"status_code": 2013, "status_msg": "context window exceeds limit"}}, "application/json"),
    ],
)  # fmt: skip
def test_failed_reply_with_status_200_is_retried(setup: Setup, reply: Json, kind: str) -> None:
    body = json.dumps(reply).encode()
    LimitedModel(setup, Reply([body], 200, [(b"content-type", kind.encode())]))
    path = f"/s/{uuid.uuid4().hex}{PATHS['responses']}"
    response = setup.post(path, body_of("responses"), x_contextrender_budget="2000")
    assert response.json() == {"id": "1", "usage": {}}


def test_request_text_in_an_error_is_not_a_refusal(setup: Setup) -> None:
    """Pydantic's errors and failed responses repeat parts of the request."""
    echo = {
        "detail": [
            {
                "type": "missing",
                "loc": ["body", "x"],
                "input": {"messages": "context length exceeded"},
            }
        ]
    }
    assert Refusal.read(422, json.dumps(echo).encode()) is None
    failure = {
        "type": "response.failed",
        "response": {
            "instructions": "Mind the context window.",
            "error": {"code": "server_error", "message": "Oops"},
        },
    }
    first_event = {
        "type": "response.created",
        "response": {"instructions": "Mind the context window."},
    }
    setup.model.answer = lambda _: stream([first_event, failure])
    path = f"/s/{uuid.uuid4().hex}{PATHS['responses']}"
    setup.post(path, {**body_of("responses"), "stream": True}, x_contextrender_budget="2000")
    assert len(setup.model.requests) == 1


@pytest.mark.parametrize("budget", ["600", "20000"])
@pytest.mark.parametrize("dialect", PATHS)
def test_call_is_tried_at_most_three_times(setup: Setup, dialect: str, budget: str) -> None:
    """This holds for a shortened history and for one that fits. The next calls add steps."""
    setup.model.answer = lambda _: json_reply(error("prompt is too long"), 400)
    path = f"/s/{uuid.uuid4().hex}{PATHS[dialect]}"
    model = uuid.uuid4().hex
    for steps, max_requests in ((8, 3), (8, 1), (9, 1), (12, 1)):
        setup.model.requests.clear()
        body = {**body_of(dialect, steps), "model": model}
        assert setup.post(path, body, x_contextrender_budget=budget).status_code == 400
        sizes = [len(request.body) for request in setup.model.requests]
        assert len(sizes) <= max_requests
        assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)


@pytest.mark.parametrize("has_name", [True, False])
@pytest.mark.parametrize("failure", ["token_missing", "late", "unreachable"])
def test_hopeless_history_that_fails_open_is_retried_once(
    start: Start, failure: str, has_name: bool
) -> None:
    """Its calls are not recorded, and the service may not even give its session's name."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if failure == "late" else 9
        url, has_token = f"http://127.0.0.1:{port}", failure != "token_missing"
        setup = start(url=url, own_token=has_token, render_timeout=0.2)
        setup.model.answer = lambda _: json_reply(error("prompt is too long"), 400)
        path = f"/s/{uuid.uuid4().hex}{PATHS['chat']}" if has_name else PATHS["chat"]
        sizes = []
        for steps in (8, 9, 12):
            setup.model.requests.clear()
            reply = setup.post(path, body_of("chat", steps))
            assert reply.status_code == 400
            assert reply.headers["x-contextrender-fail-open"] == failure
            sizes.append([len(request.body) for request in setup.model.requests])
    assert len(sizes[0]) <= 3
    assert sizes[0] == sorted(set(sizes[0]), reverse=True)
    assert [len(later) for later in sizes[1:]] == [1, 1]


@pytest.mark.parametrize(
    "reply",
    [
        error("Rate limit reached for requests", code="rate_limit_exceeded"),
        error("You exceeded your current quota, please check your plan and billing details."),
        error("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
        error("max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens"),
        error("Too many tokens, please wait before trying again."),
        error("no such model"),
        error("messages.1: `tool_use` ids were found without `tool_result` blocks"),
        error("max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
        error("Invalid 'tools': array too long. Expected an array with maximum length 128"),
        error("tool description exceeds the maximum length of 1024 characters"),
        error("Invalid 'messages[3].tool_calls[0].id': string too long. Expected maximum length 40"),
        error("temperature: Input should be less than or equal to 1"),
        error("The maximum number of tokens per day has been exceeded."),
        error("This organization has reached its monthly token limit."),
        error("At least one of the image dimensions exceed max allowed size: 8000 pixels"),
        error("The request exceeded the maximum allowed time"),
        error("Request timed out: exceeded 600 seconds"),
        error("The request rate exceeds your limit of 5"),
        error("The request exceeds the maximum number of deferred requests"),
        error("Invalid request: temperature must be less than 2"),
        error("Invalid 'input[3].name': string too long. Expected maximum length 64"),
        error("输入请求频率超过限制"),
    ],
)  # fmt: skip
def test_other_errors_are_not_refusals(reply: Json) -> None:
    assert Refusal.read(400, json.dumps(reply).encode()) is None


def test_limit_and_count_are_read_from_refusal() -> None:
    read = [Refusal.read(status, json.dumps(refusal).encode()) for status, refusal in WORDINGS[:6]
            if not isinstance(refusal, bytes)]  # fmt: skip
    assert read[0] == read[1] == read[3] == read[4] == Refusal(1000, 1300)
    assert read[5] == Refusal(1000, None)


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        ("Prompt length 1300 is greater than max_seq_len 1000", Refusal(1000, 1300)),
        ("Input length 1300 exceeds the maximum length 1000", Refusal(1000, 1300)),
        ("maximum context length is 8,191 tokens. However, you requested about 9,000 tokens (8,000 of text)", Refusal(8191, 9000)),
        ("'max_tokens' is too large: 8192. This model's maximum context length is 1000 tokens and your request has 1300 input tokens", Refusal(1000, 1300)),
        ("prompt is too large for gpt-4-0613, 2024-01-01", Refusal()),
        ("Prompt exceeds 6000 bytes, the most are 4000 bytes", Refusal()),
    ],
)  # fmt: skip
def test_limit_and_count_are_read_from_other_wordings(message: str, refusal: Refusal) -> None:
    assert Refusal.read(400, json.dumps({**error(message), "code": 4000}).encode()) == refusal
