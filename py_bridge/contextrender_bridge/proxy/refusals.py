"""Recognise how providers refuse a prompt as too long.

The wordings are those of OpenAI, Azure, Anthropic, Bedrock, Vertex and Gemini, Mistral, xAI,
Moonshot, z.ai, DashScope, DeepSeek, GitHub Copilot, Groq, OpenRouter, Together, vLLM, SGLang,
TensorRT-LLM, TGI, llama.cpp, Ollama, LM Studio, Cohere, MiniMax, Volcengine, Cloudflare, watsonx,
GitHub Models and LiteLLM. Other wordings are recognised by general patterns. Long because a refusal
may be an error, or the beginning or the end of an accepted reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.setting_kinds import SMALLEST_BUDGET
from contextrender_bridge.base.usage_reading import error_code_of
from contextrender_bridge.base.wire import Json

TOO_LARGE = 413
RETRY_SHARE = 0.6
"""The size of the next request, as a share of the refused one, if the refusal has no numbers."""
COUNTED_SHARE = 0.9
"""The share of a provider's limit to use, because providers count more tokens than the service."""

SHORTEST_ANSWER = 1024
"""A reply of more bytes whose beginning has no error's fields is an answer."""
LONGEST_ERROR = 64 * 1024
"""The largest size of an error in bytes. A longer reply is an answer."""
OK = 200
LAST_EVENTS = 4
"""The number of events at the end of a stream that are searched for a refusal."""

_BEGINNINGS = frozenset(
    {"response.created", "response.in_progress", "response.queued", "message_start", "ping"}
)
"""Types of events before the model's first text."""
_FAILURES = frozenset({"error", "response.failed", "response.incomplete"})
_FAILED_ENDS = ("error", "model_context_window_exceeded")
"""Finish reasons of an answer that failed."""
_ERROR_EVENT = re.compile(rb"^event: ?error", re.M)
_FAILED = re.compile(
    rb'"type" ?: ?"error"|"error" ?: ?[{"]|"status" ?: ?"failed"|"object" ?: ?"error"'
    rb'|"(?:finish|stop)_reason" ?: ?"model_context'
    rb'|"base_resp" ?: ?\{\s*"status_code" ?: ?[1-9]'  # MiniMax
)
_END = re.compile(rb"\r?\n\r?\n|\r\r")
_END_MARKER = b"[DONE]"
"""The data of a stream's last event, also after an error."""

_CERTAIN = re.compile(
    rb"context_length_exceeded|context_window_exceeded|model_max_prompt_tokens_exceeded"
    rb"|exceed_context_size|request_too_large|tokens_limit_reached|max_(?:seq|input)_len"
    rb"|ContextWindowExceeded|ContextOverflow|image and text exceed|n_ctx"
    rb"|context[ _-]?(?:window|size|limit|length|overflow)"
    rb"|max(?:imum)?[ _](?:prompt|input) (?:length|characters)|expected maxlength"
    rb"|'(?:messages|input)': array too long|prompt tokens limit"
    rb"|long context (?:requests?|beta|is|usage)"
    rb"|(?:prompt|input|request|conversation|history|messages)(?: is| are)? too (?:long|large|big)"
    rb"|(?:request|body) too large for|(?:entity|payload|content) too large"
    rb"|(?:prompt|input)(?: token)?(?: count)?(?: of \d+)? exceeds"
    rb"|range of input length|reduce the (?:length|size|prompt|input)"
    rb"|(?:prompt|input) (?:has|contains|with) (?:too many|[\d,_]+) tokens"
    rb"|longer than the (?:model|maximum)|larger than the (?:model|maximum|max)"
    rb"|token count[^\"]{0,40}exceed|\"code\" ?: ?\"?1261\b",
    re.I,
)
_PROBABLE = re.compile(
    rb"(?:prompts?|inputs?|request|query|conversation|history|messages?|sequence|tokens?|length)\b"
    rb"[^\"{}\n]{0,60}?(?:too (?:long|large|big)|exceed|(?:longer|larger|greater) than"
    rb"|over (?:the|its) |supports up to)"
    rb"|(?:prompts?|inputs|query|conversation|history|messages?|sequence|tokens?|length)\b"
    rb"[^\"{}\n]{0,60}?(?:must|should|cannot) (?:be |have |not )*(?:<|less|fewer|at most)"
    rb"|(?:accepts|supports|allows) (?:only )?(?:up to|at most|a maximum of) [\d,_]+ tokens"
    rb"|too many (?:input |prompt )?tokens|token limit|max(?:imum)? tokens of \d+ exceed"
    rb"|maximum supported sequence length"
    rb"|exceed\w*(?: the)?(?: model's)?(?: max\w*)?(?: allowed)?"
    rb" (?:length|size|input|prompt|number of tokens|tokens)",
    re.I,
)
_ANOTHER = re.compile(
    rb"rate.?limit|quota|credit|billing|per (?:min|day|hour)|(?:daily|monthly|weekly)\b|concurren"
    rb"|\bplan\b|organi[sz]ation|image|\bpdf|pages|audio|video|input should be|array too long"
    rb"|try again (?:later|in|after)|wait before|max_(?:completion_|output_)?tokens|budget_tokens"
    rb"|(?:output|completion) tokens|\btools?\b|function|schema|metadata\.|cache_(?:key|control)"
    rb"|call_id|\.(?:id|name)'|stop:|request rate|\brequests\b|time(?:d |-)?out|deadline|duration"
    rb"|allowed time|seconds",
    re.I,
)
"""Words of errors about other limits than the prompt's length."""
_CHINESE = re.compile(
    '(?:token|prompt|输入|内容|上下文|消息|对话|字数)[^"，。]{0,12}(?:超长|过长|太长|超出|超过)'.encode(),
    re.I,
)
_ANOTHER_CHINESE = re.compile(
    "频率|速率|并发|每分|每天|每日|每月|额度|余额|配额|图片|图像".encode()
)
_REPEATED_FIELDS = frozenset(
    {"input", "instructions", "messages", "tools", "prompt", "system", "body", "text"}
)
"""Fields of an error that repeat the request."""
_CODE = re.compile(rb'"(?:code|status)" ?: ?"?\d+')
_NOT_TOKENS = re.compile(rb"\bbytes\b|(?:string|array) too long|characters|maxlength|payload", re.I)
"""Words of a refusal whose numbers do not count tokens."""
_NUMBER = rb"([\d,_]*\d)"
_ANY_NUMBER = re.compile(rb"(?<![\w.\-])\d[\d,_]*\d{3}(?![\w\-]|\.\d*[1-9])")
"""A number of at least four digits that is not part of a name, such as a model's."""


def _patterns(*texts: bytes) -> re.Pattern[bytes]:
    """Return a pattern that matches any of `texts`, in which `N` stands for a number."""
    return re.compile(b"|".join(text.replace(b"N", _NUMBER) for text in texts), re.I)


_LIMIT = _patterns(
    rb"maximum (?:context|prompt|input) length (?:is|of) N",
    rb"(?:context|input) (?:length|window|size|limit)(?: is| of|:)? (?:only )?\(?N",
    rb"> N",
    rb"tokens allowed \(N",
    rb"token limit(?: is| of|:)? N",
    rb"exceeds the limit of N",
    rb"should be \[\d+, ?N\]",
    rb'"n_ctx" ?: ?N',
    rb"Limit:? N",
    rb"(?:maximum|max|limit) (?:is|of|allowed is) N",
    rb"(?:at most|less than|fewer than|<=|up to) N",
    rb"max size: N tokens",
    rb"(?:window|context) limit \(?N",
    rb"(?:maximum|max_seq_len|max_num_tokens)(?: length)? \(?N",
)
_PROMPT_TOKENS = _patterns(
    rb"resulted in N tokens",
    rb"too long:? N tokens",
    rb"token count \(N",
    rb"token count of N",
    rb"request \(N tokens",
    rb"requested:? (?:about )?N",
    rb"contains N tokens",
    rb"(?:you|prompt|input|request) (?:has|have|is|are|with|contains) N (?:input )?tokens",
    rb'"n_prompt_tokens" ?: ?N',
    rb"given:? N",
    rb"(?:length|tokens?|input) \(?N",
    rb"total of N tokens",
)


@dataclass(frozen=True)
class Refusal:
    """A provider's refusal of a prompt as too long.

    `limit` is the provider's limit in tokens, `prompt_tokens` its count of the prompt. Each is None
    if the refusal does not have it.
    """

    limit: int | None = None
    prompt_tokens: int | None = None

    @classmethod
    def read(cls, status: int, body: bytes) -> Refusal | None:
        """Return the refusal in an error's status and body, or None if it is another error.

        Read the provider's numbers only if they are certain to be tokens.
        """
        body = _without_request(body)
        if not (status == TOO_LARGE or is_too_long(body)):
            return None
        if _NOT_TOKENS.search(body):
            return cls()
        limit, prompt_tokens = _find_number(_LIMIT, body), _find_number(_PROMPT_TOKENS, body)
        if limit and prompt_tokens and prompt_tokens > limit:
            return cls(limit, prompt_tokens)
        # The wording is unknown. If it has two different numbers beside the status code, the
        # smaller one is the limit, and the larger one counts the prompt.
        numbers = {_to_int(digits) for digits in _ANY_NUMBER.findall(_CODE.sub(b"", body))}
        if len(numbers) == 2:
            return cls(min(numbers), max(numbers))
        # One of the numbers is missing, or the prompt has no more tokens than `limit`. In the
        # second case `limit` is not the limit, so return it only without a number of prompt tokens.
        return cls(None if prompt_tokens else limit)

    @property
    def share(self) -> float:
        """The size of the next request, as a share of the refused one."""
        if self.limit and self.prompt_tokens:
            return COUNTED_SHARE * self.limit / self.prompt_tokens
        return RETRY_SHARE

    def next_budget(self, history_tokens: int) -> int:
        """Return the budget in tokens for the next call of a refused history.

        The refused history had `history_tokens`, as the service counted them.
        """
        if not (self.limit and self.prompt_tokens):
            return max(int(RETRY_SHARE * history_tokens), SMALLEST_BUDGET)
        # The rest of the prompt, such as the tools, stays as large as it was.
        other_tokens = self.prompt_tokens - history_tokens
        return max(int(COUNTED_SHARE * (self.limit - other_tokens)), SMALLEST_BUDGET)


def _without_request(body: bytes) -> bytes:
    """Return a JSON error without the parts of the request that it repeats.

    Return any other error unchanged.
    """
    try:
        return wire.dumps(_prune(wire.loads(body)))
    except ValueError:
        return body


def _prune(value: Any) -> Any:
    """Return a JSON value without the fields `_REPEATED_FIELDS`, at any depth."""
    if isinstance(value, dict):
        return {name: _prune(value[name]) for name in value if name not in _REPEATED_FIELDS}
    return [_prune(inner) for inner in value] if isinstance(value, list) else value


def is_too_long(text: bytes) -> bool:
    """Return whether the text of an error means that the prompt is too long.

    A probable wording counts only without words of other errors, such as a rate limit.
    """
    if _CERTAIN.search(text):
        return True
    is_chinese = _CHINESE.search(text) and not _ANOTHER_CHINESE.search(text)
    return bool(is_chinese or (_PROBABLE.search(text) and not _ANOTHER.search(text)))


def _find_number(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    """Return the number in the first match of a pattern of `_patterns`, or None."""
    match = pattern.search(text)
    # Each alternative of the pattern has a group with its number. Only one of them matched.
    digits = next((group for group in match.groups() if group), b"") if match else b""
    return _to_int(digits) if digits else None


def _to_int(digits: bytes) -> int:
    return int(re.sub(rb"[,_]", b"", digits))


def read_refusal(status: int, text: bytes, *, is_error: bool, is_stream: bool) -> Refusal | None:
    """Return the refusal of a too long prompt in a reply without content, or None.

    The reply is an error, a stream of events, or a whole response that may be a failure. `text` is
    its decoded beginning.
    """
    has_events = is_stream and not text.lstrip().startswith((b"{", b"["))
    if is_error or (not has_events and _FAILED.search(text)):
        return Refusal.read(status, text)
    return _refusal_in(_END.split(text)) if has_events else None


def has_content(text: bytes, *, is_stream: bool) -> bool:
    """Return whether the bytes read so far show that the reply is an answer.

    `is_stream` is true for a stream of events, in which one event must have content. Any other
    reply must be longer than an error would be, without an error's fields.
    """
    if not is_stream:
        # An error is short, and its fields come first.
        return not _FAILED.search(text) and len(text) > SHORTEST_ANSWER
    *events, _ = _END.split(text)  # The last event may be incomplete.
    return any(map(_is_content, events))


def late_refusal(reply: bytes) -> Refusal | None:
    """Return the refusal of a too long prompt at the end of a stream, or None if there is none."""
    events = _END.split(reply[-LONGEST_ERROR:])[-LAST_EVENTS:]
    return _refusal_in([event for event in events if not _is_content(event)])


def failure_code(reply: bytes, *, is_stream: bool) -> str:
    """Return the code of the failure in an accepted reply; empty if the reply has no failure.

    Search the last events of a stream, or the whole of another reply that is short enough. For a
    failure without a code, return "error".
    """
    bodies = [reply] if len(reply) < LONGEST_ERROR else []
    if is_stream:
        bodies = [_data(event) for event in _END.split(reply[-LONGEST_ERROR:])[-LAST_EVENTS:]]
    failures = filter(None, map(_failure_in, map(_fields, bodies)))
    return next((error_code_of(failure) or "error" for failure in failures), "")


def _failure_in(fields: Json) -> Json | None:
    """Return the object with the error in a reply or an event, or None if there is no error.

    `fields` are those of the reply or event. The object is `fields` itself, its response, or one of
    its choices.
    """
    response, choices, status = (fields.get(name) for name in ("response", "choices", "base_resp"))
    parts = [fields, response, *(choices if isinstance(choices, list) else ())]
    objects = [part for part in parts if isinstance(part, dict)]
    if failed_objects := [part for part in objects if part.get("error")]:
        return failed_objects[0]
    # Without a field `error`, the reply's type, its status or a finish reason shows a failure.
    is_refusal = isinstance(status, dict) and status.get("status_code")  # MiniMax
    has_failed = "error" in (fields.get("type"), fields.get("object")) or is_refusal
    ends = any(part.get("finish_reason") == "error" for part in objects)
    return fields if has_failed or ends else None


def _refusal_in(events: Sequence[bytes]) -> Refusal | None:
    """Return the first refusal of a too long prompt in a stream's events, or None.

    Skip events that precede the model's first text. They may repeat the request, and its texts
    could look like a refusal.
    """
    texts = (_data(event) for event in events)
    refusals = (Refusal.read(OK, text) for text in texts if not _is_beginning(text))
    return next(filter(None, refusals), None)


def _data(event: bytes) -> bytes:
    """Return the data of an event; empty if it has none."""
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines)


def _fields(data: bytes) -> Json:
    """Return the fields of an event's data; empty if it is no JSON object.

    Gemini's data may be a list of objects. Return the fields of the first one.
    """
    try:
        fields = wire.loads(data)
    except ValueError:
        return {}
    fields = fields[0] if isinstance(fields, list) and fields else fields
    return fields if isinstance(fields, dict) else {}


def _is_beginning(data: bytes) -> bool:
    """Return whether an event's data belongs to the beginning of an answer, before any text."""
    return _fields(data).get("type") in _BEGINNINGS


def _is_content(event: bytes) -> bool:
    """Return whether an event shows that the reply is an answer.

    It does if it has text or a call of the model, or a normal finish reason.
    """
    data = _data(event)
    if not data or data == _END_MARKER or _ERROR_EVENT.search(event):
        return False
    fields = _fields(data)
    # Data that is no JSON object has an unknown format. It counts as text.
    return not fields or _has_text(fields)


def _has_text(fields: Json) -> bool:
    """Return whether an event's fields have text, a call or a normal finish reason.

    Of other events and in unknown formats, all fields count as text, unless they are an error's.
    """
    kind, choices = fields.get("type"), fields.get("choices")
    if fields.get("error") or fields.get("object") == "error" or kind in _BEGINNINGS | _FAILURES:
        return False
    # `parts` are the objects that may have text, a call or a finish reason.
    if isinstance(choices, list):  # chat completions
        objects = [choice for choice in choices if isinstance(choice, dict)]
        parts = [choice.get("delta") or choice.get("message") for choice in objects]
        parts += [{"finish_reason": choice.get("finish_reason")} for choice in objects]
    elif kind in ("content_block_start", "message_delta"):  # Messages
        parts = [fields.get("content_block") or fields.get("delta")]
    else:  # also the other events of Messages, such as `content_block_delta`
        return not fields.keys() & {"code", "detail", "base_resp"}
    return any(_is_text_part(part) for part in parts if isinstance(part, dict))


def _is_text_part(part: Json) -> bool:
    """Return whether a part has any value beside its role, its type and a failed finish reason."""
    values = [value for name, value in part.items() if name not in ("role", "type")]
    return any(value and value not in _FAILED_ENDS for value in values)
