"""Recognise how providers refuse a prompt as too long.

The wordings are those of OpenAI, Azure, Anthropic, Bedrock, Vertex and Gemini, Mistral, xAI,
Moonshot, z.ai, DashScope, DeepSeek, GitHub Copilot, Groq, OpenRouter, Together, vLLM, SGLang,
TensorRT-LLM, TGI, llama.cpp, Ollama, LM Studio, Cohere, MiniMax, Volcengine, Cloudflare, watsonx,
GitHub Models and LiteLLM. Other wordings are recognised by general patterns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.setting_kinds import SMALLEST_BUDGET

TOO_LARGE = 413
RETRY_SHARE = 0.6
"""The size of the next request, as a share of the refused one, if the refusal has no numbers."""
COUNTED_SHARE = 0.9
"""The share of a provider's limit to use, because providers count more tokens than the service."""

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
