"""Recognise how providers refuse a prompt as too long.

The wordings are those of OpenAI, Azure, Anthropic, Bedrock, Vertex and Gemini, Mistral, xAI,
Moonshot, z.ai, DashScope, DeepSeek, GitHub Copilot, Groq, OpenRouter, Together, vLLM, SGLang,
llama.cpp, Ollama, LM Studio and LiteLLM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from contextrender_bridge.base.setting_kinds import SMALLEST_BUDGET

TOO_LARGE = 413
RETRY_SHARE = 0.6
"""The share of a refused request to send next, if the provider gives no numbers."""
COUNTED_SHARE = 0.9
"""The share of a provider's limit to fill: providers count more tokens than the service."""

_CERTAIN = re.compile(
    rb"context_length_exceeded|context_window_exceeded|model_max_prompt_tokens_exceeded"
    rb"|exceed_context_size|request_too_large|ContextWindowExceeded|ContextOverflow"
    rb"|context[ _-]?(?:window|size|limit|length|overflow)|max(?:imum)?[ _](?:prompt|input) length"
    rb"|(?:prompt|input|request|conversation|history|messages)(?: is| are)? too (?:long|large)"
    rb"|request too large for|(?:entity|payload|content) too large"
    rb"|(?:prompt|input)(?: token)?(?: count)?(?: of \d+)? exceeds"
    rb"|exceeds? (?:the )?max(?:imum)?(?: allowed)? (?:length|size|input|prompt|number of tokens)"
    rb"|range of input length|maximum number of (?:input )?tokens|reduce the (?:length|size|prompt)"
    rb"|(?:prompt|input) (?:has|contains|with) (?:too many|[\d,_]+) tokens"
    rb"|longer than the (?:model|maximum)|larger than the (?:model|maximum|max)"
    rb"|token count[^\"]{0,40}exceed|n_ctx|\"code\" ?: ?\"?1261\b",
    re.I,
)
_PROBABLE = re.compile(
    rb"too many (?:input |prompt )?tokens|(?:model )?token limit|tokens? (?:count )?exceed"
    rb"|(?:prompt|input|request)[^\"{}]{0,60}exceed[^\"{}]{0,60}(?:token|length|size|limit)",
    re.I,
)
_ANOTHER = re.compile(
    rb"rate.?limit|quota|credit|billing|per (?:min|day|hour)|concurren|image|try again|wait before"
    rb"|max_(?:completion_|output_)?tokens",
    re.I,
)
"""Words of a refusal that mean another limit than the prompt's length."""
_NUMBER = rb"([\d,_]*\d)"


def _patterns(*texts: bytes) -> re.Pattern[bytes]:
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
    rb"at most N tokens",
)
_PROMPT_TOKENS = _patterns(
    rb"resulted in N tokens",
    rb"too long:? N tokens",
    rb"token count \(N",
    rb"token count of N",
    rb"request \(N tokens",
    rb"requested:? N",
    rb"contains N tokens",
    rb"(?:you|prompt|input) (?:has|have|is|are|with) N (?:input )?tokens",
    rb'"n_prompt_tokens" ?: ?N',
)


@dataclass(frozen=True)
class Refusal:
    """A provider's refusal of a prompt as too long: its limit, and its count of the prompt."""

    limit: int | None = None
    prompt_tokens: int | None = None

    @classmethod
    def read(cls, status: int, body: bytes) -> Refusal | None:
        """Return the refusal; None if the provider refuses for another reason, or not at all."""
        if not (status == TOO_LARGE or is_too_long(body)):
            return None
        limit, prompt_tokens = _number(_LIMIT, body), _number(_PROMPT_TOKENS, body)
        if limit and prompt_tokens and prompt_tokens <= limit:
            limit = prompt_tokens = None
        return cls(limit, prompt_tokens)

    @property
    def share(self) -> float:
        """The share of the refused request to send next."""
        if self.limit and self.prompt_tokens:
            return COUNTED_SHARE * self.limit / self.prompt_tokens
        return RETRY_SHARE

    def next_budget(self, history_tokens: int) -> int:
        """Return the budget after a prompt with `history_tokens` of history was refused."""
        if not (self.limit and self.prompt_tokens):
            return max(int(RETRY_SHARE * history_tokens), SMALLEST_BUDGET)
        remaining = self.limit - self.prompt_tokens + history_tokens
        return max(int(COUNTED_SHARE * remaining), SMALLEST_BUDGET)


def is_too_long(text: bytes) -> bool:
    """Return whether an error says that the prompt is too long."""
    if _CERTAIN.search(text):
        return True
    return bool(_PROBABLE.search(text)) and not _ANOTHER.search(text)


def _number(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    match = pattern.search(text)
    digits = next((group for group in match.groups() if group), b"") if match else b""
    return int(re.sub(rb"[,_]", b"", digits)) if digits else None
