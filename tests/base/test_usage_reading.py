"""Provider usage in every format that providers and gateways send."""
# ruff: noqa: E501

import json
import tracemalloc
from typing import Any

import pytest
from contextrender_bridge.base.contents import Decoder, decode_body
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import count_of, read_usage

from tests.support.codings import COMPRESS, ENCODED_TEXTS, TEXT

JSON = "application/json"
SSE = "text/event-stream"


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


FORMS: list[tuple[str, Any]] = [
    (JSON, {"usage": {"prompt_tokens": 700.0, "completion_tokens": 10.0}}),
    (JSON, {"usage": {"prompt_tokens": "700", "completion_tokens": "10"}}),
    (JSON, {"usage": {"prompt_tokens": None, "total_tokens": 710, "completion_tokens": 10}}),
    (JSON, {"usage": {"input_tokens": 700, "output_tokens": 10}}),
    (JSON, {"usage": {"inputTokens": 700, "outputTokens": 10, "totalTokens": 710}}),
    (JSON, {"usage": {"promptTokens": 700, "completionTokens": 10}}),
    (JSON, {"usageMetadata": {"promptTokenCount": 700, "candidatesTokenCount": 4, "thoughtsTokenCount": 6}}),
    (JSON, [{"usageMetadata": {"promptTokenCount": 700, "candidatesTokenCount": 10}}]),
    (JSON, {"model": "m", "prompt_eval_count": 700, "eval_count": 10}),
    ("application/x-ndjson", b'{"message": {}}\n{"done": true, "prompt_eval_count": 700, "eval_count": 10}\n'),
    (SSE, sse({"choices": [{"delta": {}, "usage": {"prompt_tokens": 700, "completion_tokens": 10}}]})),
    (SSE, sse({"x_groq": {"usage": {"prompt_tokens": 700, "completion_tokens": 10}}})),
    (SSE, sse({"type": "message_start", "message": {"usage": {"input_tokens": 700, "output_tokens": 1}}}, {"type": "message_delta", "usage": {"output_tokens": 10}})),
    (SSE, sse({"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}, {"type": "message_delta", "usage": {"input_tokens": 700, "output_tokens": 10}})),
    (SSE, sse({"type": "message_start", "message": {"usage": {"input_tokens": 700, "output_tokens": 0}}}, {"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 10}})),
    (SSE, sse({"type": "response.completed", "response": {"usage": {"input_tokens": 700, "output_tokens": 10}}})),
    ("text/plain", sse({"usage": {"prompt_tokens": 700, "completion_tokens": 10}})),
    ("", b"\xef\xbb\xbf" + json.dumps({"usage": {"prompt_tokens": 700, "completion_tokens": 10}}).encode()),
    (SSE, b'data:{"usage":{"prompt_tokens":700,"completion_tokens":10}}\r\rdata: [DONE]\r\r'),
    (SSE, sse({"metadata": {"usage": {"inputTokens": 700, "outputTokens": 10}}})),
    # Cohere, Cloudflare, Vercel's AI SDK, Bedrock, xAI, DeepSeek, llama.cpp.
    (JSON, {"usage": {"billed_units": {"input_tokens": 700, "output_tokens": 10}, "tokens": {"input_tokens": 900}}}),
    (JSON, {"result": {"response": "ok", "usage": {"prompt_tokens": 700, "completion_tokens": 10}}}),
    (JSON, {"usage": {"inputTokens": {"total": 700, "noCache": 700}, "outputTokens": {"total": 10}}}),
    (SSE, sse({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 700, "outputTokenCount": 10}})),
    (JSON, {"usage": {"prompt_tokens": 700, "completion_tokens": 4, "total_tokens": 710, "completion_tokens_details": {"reasoning_tokens": 6}}}),
    (JSON, {"usage": {"prompt_tokens": 700, "completion_tokens": 10, "total_tokens": 710, "completion_tokens_details": {"reasoning_tokens": 6}}}),
    (JSON, {"usage": {"prompt_cache_hit_tokens": 500, "prompt_cache_miss_tokens": 200, "completion_tokens": 10}}),
    (SSE, sse({"choices": [], "timings": {"cache_n": 600, "prompt_n": 100, "predicted_n": 10}})),
    (JSON, {"choices": [{"message": {"content": "ok", "usage": {"promptTokens": 700, "completionTokens": 10}}}]}),
    # Cohere's stream, Gemini with its own tools, Gemini's thinking through gateways.
    (SSE, sse({"type": "message-end", "delta": {"usage": {"billed_units": {"input_tokens": 700, "output_tokens": 10}, "tokens": {"input_tokens": 900}}}})),
    (JSON, {"usageMetadata": {"promptTokenCount": 600, "toolUsePromptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 710}}),
    (JSON, {"model": "google/gemini-3-pro", "usage": {"prompt_tokens": 700, "completion_tokens": 4, "total_tokens": 710}}),
    # DashScope, OpenRouter's comments and empty usage, numbers with exponents.
    (JSON, {"output": {"text": "ok"}, "usage": {"input_tokens": 700, "output_tokens": 10, "total_tokens": 710, "prompt_tokens_details": {"cached_tokens": 500}}}),
    (SSE, b': PROCESSING\n\ndata: {"usage": null}\n\ndata: {"usage": {"prompt_tokens": 700, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}}}\n\n'),
    (JSON, b'{"usage": {"prompt_tokens": 7e2, "completion_tokens": 1.0E1}}'),
    # Malformed texts and streams.
    (JSON, b'{"choices": []}\n{"usage": {"prompt_tokens": 700, "completion_tokens": 10}}\n'),
    (SSE, b'event: x\ndata: {"usage":\ndata: {"prompt_tokens": 700, "completion_tokens": 10}}\n\n'),
    (SSE, b'data: {"choices": []}\ndata: {"usage": {"prompt_tokens": 700, "completion_tokens": 10}}\n'),
    ("", b'id: 1\nretry: 9\ndata: {"usage": {"prompt_tokens": 700, "completion_tokens": 10}}\n\n'),
    (SSE, b'\xef\xbb\xbfdata: {"usage": {"prompt_tokens": 700, "completion_tokens": 10}}\n\n'),
    (SSE, b'data: {"x": "caf\xe9 \x0b", "usage": {"prompt_tokens": 700, "completion_tokens": 10}}\n\n'),
    ("application/json; charset=utf-16", json.dumps({"usage": {"prompt_tokens": 700, "completion_tokens": 10}}).encode("utf-16")),
    (SSE, b'data: "{\\"usage\\": {\\"prompt_tokens\\": 700, \\"completion_tokens\\": 10}}"\n\n'),
    ("application/json-seq", b'\x1e{"usage": {"prompt_tokens": 700, "completion_tokens": 10}}\n'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "reply"), FORMS)
def test_usage_format_is_read(kind: str, reply: Any) -> None:
    usage = read_usage(kind, reply if isinstance(reply, bytes) else json.dumps(reply).encode())
    assert usage is not None
    assert (usage.prompt, usage.output) == (700, 10)


@pytest.mark.parametrize(
    ("provider_usage", "counts"),
    [
        ({"prompt_tokens": 700, "prompt_tokens_details": {"cached_tokens": 500}}, (200, 500, 0, 0)),
        ({"prompt_tokens": 700, "prompt_cache_hit_tokens": 500, "prompt_cache_miss_tokens": 200}, (200, 500, 0, 0)),
        ({"prompt_tokens": 700, "cached_tokens": 500}, (200, 500, 0, 0)),
        ({"prompt_tokens": 700, "num_cached_tokens": 500}, (200, 500, 0, 0)),
        ({"prompt_tokens": 700, "cache_read_input_tokens": 500, "cache_creation_input_tokens": 100}, (100, 500, 100, 0)),
        ({"prompt_tokens": 700, "prompt_tokens_details": {"cached_tokens": 500.0, "cache_write_tokens": 100}}, (100, 500, 100, 0)),
        ({"input_tokens": 100, "cache_read_input_tokens": "500", "cache_creation_input_tokens": 100}, (100, 500, 100, 0)),
        ({"input_tokens": 100, "cache_read_input_tokens": 500, "cache_creation_input_tokens": 100, "cache_creation": {"ephemeral_1h_input_tokens": 60}}, (100, 500, 40, 60)),
        ({"input_tokens": 700, "input_tokens_details": {"cached_tokens": 500}}, (200, 500, 0, 0)),
        ({"inputTokens": 200, "cacheReadInputTokens": 500, "cacheWriteInputTokens": 0}, (200, 500, 0, 0)),
        ({"inputTokens": 100, "cacheWriteInputTokens": 600, "cacheDetails": [{"ttl": "5m", "inputTokens": 200}, {"ttl": "1h", "inputTokens": 400}]}, (100, 0, 200, 400)),
        ({"promptTokenCount": 700, "cachedContentTokenCount": 500}, (200, 500, 0, 0)),
        ({"prompt_tokens": 700, "prompt_tokens_details": {"cached_tokens": 900}}, (0, 700, 0, 0)),
        ({"prompt_tokens": 700, "prompt_tokens_details": {"cached_tokens": 100, "cache_creation_input_tokens": 300}}, (300, 100, 300, 0)),
        ({"prompt_tokens": 700, "cache_creation_input_tokens": 300, "prompt_tokens_details": {"cache_creation_token_details": {"ephemeral_1h_input_tokens": 200}}}, (400, 0, 100, 200)),
        ({"input_tokens": 100, "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 400}}, (100, 0, 200, 400)),
        ({"inputTokens": {"total": 700, "cacheRead": 500, "cacheWrite": 100}}, (100, 500, 100, 0)),
        ({"prompt_cache_hit_tokens": 500, "prompt_cache_miss_tokens": 200}, (200, 500, 0, 0)),
        ({"input_tokens": 700, "input_token_details": {"cache_read": 500, "cache_creation": 100}}, (100, 500, 100, 0)),
    ],
)  # fmt: skip
def test_cached_tokens_are_read(provider_usage: Any, counts: Any) -> None:
    usage = read_usage(JSON, json.dumps({"model": "m", "usage": provider_usage}).encode())
    assert usage is not None
    assert (usage.uncached, usage.cache_read, usage.cache_write, usage.cache_write_1h) == counts


@pytest.mark.parametrize(
    ("kind", "reply", "usage"),
    [
        (JSON, b'{"model": "m", "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 6}, "completion_tokens": 4}}', Usage("m", 3, 6, output=4)),
        (SSE, sse({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_1h_input_tokens": 5}, "output_tokens": 1}}}, {"type": "message_delta", "usage": {"output_tokens": 9}}), Usage("m", 3, 50, 2, 5, 9)),
        (SSE, sse({"type": "response.completed", "response": {"model": "m", "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2}}}), Usage("m", 6, 4, output=2)),
        (SSE, sse({"model": "m", "usage": None}) + b"data: [DONE]\n\n", None),
        (JSON, b'{"usage": broken', None),
    ],
)  # fmt: skip
def test_model_and_all_counts_are_read(kind: str, reply: bytes, usage: Usage | None) -> None:
    assert read_usage(kind, reply) == usage


@pytest.mark.parametrize(
    "provider_usage",
    [
        {},
        {"prompt_tokens": None, "completion_tokens": 5},
        {"prompt_tokens": -1},
        {"prompt_tokens": "many"},
        {"prompt_tokens": True},
        {"prompt_tokens": [7]},
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        "none",
        None,
    ],
)
def test_invalid_usage_is_none(provider_usage: Any) -> None:
    assert read_usage(JSON, json.dumps({"model": "m", "usage": provider_usage}).encode()) is None


def test_counts_are_parsed() -> None:
    read = {"1,300": 1300, "700.0": 700, " 7 ": 7, "7.5": None, "1e3": None, "-1": None, "": None}
    assert {text: count_of(text) for text in read} == read
    assert count_of(float("nan")) is None and count_of(float("inf")) is None


@pytest.mark.parametrize(
    ("codings", "body"),
    ENCODED_TEXTS,
    # The bytes contain the time. If they were the ids, processes of one run would differ.
    ids=[f"{codings} {number}" for number, (codings, _) in enumerate(ENCODED_TEXTS)],
)
def test_content_codings_are_decoded_in_pieces(codings: str, body: bytes) -> None:
    assert decode_body(codings, body, 2**20) == TEXT
    assert decode_body(codings, body, 10) == TEXT[:10]
    cut_bodies = [[body[:end], body[end:]] for end in range(len(body) + 1)]
    for pieces in (*cut_bodies, [body[start : start + 1] for start in range(len(body))]):
        decoder = Decoder(codings)
        content = b"".join(part for piece in pieces for part in decoder.feed(piece))
        assert content == TEXT and not decoder.is_broken


@pytest.mark.parametrize("codings", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "br, deflate"])
def test_small_body_cannot_fill_the_memory(codings: str) -> None:
    body, size = bytes(2**25), 2**16
    for coding in codings.split(", "):
        body = COMPRESS[coding](body)
    tracemalloc.start()
    try:
        assert decode_body(codings, body, size) == bytes(size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**24
    assert sum(map(len, Decoder(codings).feed(body))) == 2**25


@pytest.mark.parametrize("codings", ["gzip", "deflate", "zstd"])
def test_content_before_garbage_is_decoded(codings: str) -> None:
    """The reply arrives in one piece, for example events and what a broken gateway appends."""
    assert b"".join(Decoder(codings).feed(COMPRESS[codings](TEXT) + b"garbage")) == TEXT


@pytest.mark.parametrize("codings", ["gzip", "deflate", "br", "zstd", "unheard-of"])
def test_undecodable_body_is_empty(codings: str) -> None:
    assert decode_body(codings, b"none", 9) == b""


RESPONSES_ITEMS = [
    {"type": "web_search_call", "action": {"type": "search"}},
    {"type": "web_search_call", "action": {"type": "open_page"}},
    {"type": "web_search_call"},
    {"type": "message", "content": []},
]
COUNTS = {"prompt_tokens": 1000, "completion_tokens": 10}
SEARCHES: list[tuple[Any, str, float | None]] = [
    # Anthropic, and gateways in its format: 10 dollars per 1,000 searches.
    (
        {"model": "claude-sonnet-4-6", "usage": {"input_tokens": 1, "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}}},
        "claude-sonnet-4-6 (2 web searches)",
        0.02,
    ),
    ({"model": "claude-sonnet-4-6", "usage": {"input_tokens": 1, "server_tool_use": {"web_search_requests": 0}}}, "claude-sonnet-4-6", 0.0),
    # Perplexity: a fee for each request by the size of the context, and for each query of deep research.
    ({"model": "perplexity/sonar-pro", "usage": {**COUNTS, "search_context_size": "high"}}, "perplexity/sonar-pro (1 high web search)", 0.014),
    ({"model": "perplexity/sonar-deep-research", "usage": {**COUNTS, "num_search_queries": 8}}, "perplexity/sonar-deep-research (8 web searches)", 0.04),
    # The size of the context, and so the price, is only in the request.
    ({"model": "gpt-4o-search-preview", "usage": COUNTS}, "gpt-4o-search-preview (1 web search)", None),
    ({"model": "gpt-5.1", "output": RESPONSES_ITEMS, "usage": COUNTS}, "gpt-5.1 (2 web searches)", None),
    ({"model": "gpt-5.1", "output": [{"type": "file_search_call"}, {"type": "code_interpreter_call"}], "usage": COUNTS}, "gpt-5.1 (file search, code interpreter)", None),
    ({"modelVersion": "gemini-2.5-pro", "candidates": [{"groundingMetadata": {"webSearchQueries": ["a", "b"]}}], "usageMetadata": {"promptTokenCount": 9}}, "gemini-2.5-pro (2 web searches)", None),
    # Anthropic's compaction and advisor have counts of their own, which the call's do not include.
    ({"model": "claude-opus-4-6", "usage": {"input_tokens": 9, "iterations": [{"type": "message", "input_tokens": 9}]}}, "claude-opus-4-6", 0.0),
    (
        {"model": "claude-opus-4-6", "usage": {"input_tokens": 9, "iterations": [{"type": "compaction", "input_tokens": 900}, {"type": "message", "input_tokens": 9}, {"type": "advisor_message", "model": "claude-opus-4-7", "input_tokens": 90}]}},
        "claude-opus-4-6 (compaction, advisor)",
        None,
    ),
    ({"model": "xai/grok-4", "usage": {**COUNTS, "num_sources_used": 4}}, "xai/grok-4 (live search)", None),
    ({"model": "xai/grok-4", "usage": {**COUNTS, "server_side_tool_usage_details": {"web_search_calls": 3}}}, "xai/grok-4 (3 web searches)", None),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "name", "fee"), SEARCHES)
def test_tools_of_the_provider_are_priced_or_named(
    reply: Any, name: str, fee: float | None
) -> None:
    """A price beside the tokens is in the cost of each call. Without one, the price is named."""
    usage = read_usage("application/json", json.dumps(reply).encode())
    assert usage is not None and usage.model == name
    prices = Prices.of()
    price, plain_price = prices.of_model(name), prices.of_model(name.partition(" (")[0])
    assert price and plain_price
    added_cost = price.of(usage.plus(usage)) - plain_price.of(usage.plus(usage))
    assert added_cost == pytest.approx(2 * (fee or 0.0))
    assert bool(prices.price_source_of(name)) == (fee is None)
