"""Token counts of chat messages, offline and additive per message (docs/method.md)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
import tiktoken
from numpy.typing import NDArray

from contextrender_bridge.base.shipped import encoding_of

DEFAULT_ENCODING: Final = "o200k_base"

MESSAGE_OVERHEAD: Final = 4
"""Tokens a chat format spends on a message's role and delimiters."""

CALL_OVERHEAD: Final = 4
"""Tokens a chat format spends on a tool call's id and delimiters."""

MEDIA_TOKENS: Final = 765
"""Tokens charged for an image, audio or file part: a 1024 x 1024 image at OpenAI's high detail."""

PIECE_CHARS: Final = 100_000
"""Longest text given to tiktoken at once: its regex overflows its stack near 10**6 white spaces."""

_SHIPPED: Final = {name: name for name in ("cl100k_base", "o200k_base")} | {
    "o200k_harmony": "o200k_base"  # the same but for special tokens
}
_byte_lengths: Final[dict[str, NDArray[np.uint8]]] = {}
"""The length of every token in bytes, by the name of a loaded encoding that is shipped."""

_MEDIA_TYPES: Final = frozenset(
    {"audio", "file", "image", "image_url", "input_audio", "input_file", "input_image", "video_url"}
)
_TOKEN_BOUNDARY: Final = re.compile(r"(?<=[A-Za-z0-9])(?=\n| [A-Za-z])")


class TokenCounter:
    """Counts tokens as one tiktoken encoding does; special tokens count as plain text.

    The count of a list of messages is the sum of its messages' counts. A message costs its text,
    `MESSAGE_OVERHEAD`, `MEDIA_TOKENS` for each media part and its tool calls; a tool call costs
    its name, its arguments' text and `CALL_OVERHEAD`. An assistant message without text costs its
    tool calls only. The rules are in docs/method.md.
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        """Load `encoding`. Raise ValueError if tiktoken does not know it."""
        self.encoding = encoding
        self._codec = _codec(encoding)
        self._latest: tuple[str, list[int]] = "", []
        """The last text and its tokens: a result is counted, then split into segments."""

    def text(self, text: str) -> int:
        """Count the tokens of `text`: exactly tiktoken's for texts up to `PIECE_CHARS` characters.

        A longer text is counted in pieces, which end where a token surely ends: before a line break
        or before a space and a word. So the sum is tiktoken's, too. Only a text of `PIECE_CHARS`
        characters without such a position may count a few tokens more. A lone surrogate counts as
        U+FFFD.
        """
        if len(text) <= PIECE_CHARS:
            return len(self._tokens(text))
        return sum(len(self._codec.encode_ordinary(piece)) for piece in _pieces(text, PIECE_CHARS))

    def spread(self, text: str, ends: Sequence[int]) -> list[int]:
        """Count the tokens of each part of `text`; each of `ends` is the end of a part.

        The text is read once: a token that begins in one part and ends in another counts in the
        first, so the sum is that of `text` alone, and a part counted alone may have a few more.
        """
        parts = pairwise([0, *ends])
        if self.encoding not in _byte_lengths:
            return [self.text(text[start:end]) for start, end in parts]
        if text.isascii():
            byte_ends = np.array(ends)
        else:
            byte_ends = np.cumsum(
                [len(text[start:end].encode("utf-8", "surrogatepass")) for start, end in parts]
            )
        tokens = chain.from_iterable(map(self._tokens, _pieces(text, PIECE_CHARS)))
        lengths = _byte_lengths[self.encoding][np.fromiter(tokens, np.int32)]
        token_starts = np.cumsum(lengths) - lengths
        tokens_before_end = np.searchsorted(token_starts, byte_ends)
        counts: list[int] = np.diff(tokens_before_end, prepend=0).tolist()
        return counts

    def _tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, from the cache if it is the last one."""
        latest_text, tokens = self._latest
        if latest_text is not text:
            tokens = self._codec.encode_ordinary(text)
            self._latest = text, tokens
        return tokens

    def message(self, message: Mapping[str, Any]) -> int:
        """Count the tokens of one chat message, its tool calls included.

        An assistant message without text has only its calls, which have overheads of their own.
        """
        content = message.get("content")
        total = self.text(content_text(content))
        if isinstance(content, list):
            total += MEDIA_TOKENS * sum(_is_media(part) for part in content)
        if total or message.get("role") != "assistant":
            total += MESSAGE_OVERHEAD
        return total + sum(self.call(call) for call in message.get("tool_calls") or ())

    def call(self, tool_call: Mapping[str, Any]) -> int:
        """Count the tokens of one tool call."""
        name, arguments = call_parts(tool_call)
        return CALL_OVERHEAD + self.text(name) + self.text(arguments)

    def cut(self, text: str, limit: int) -> str:
        """Return the first tokens of `text`, as many as fit `limit`, as text."""
        if limit <= 0:
            return ""
        if self.text(text) <= limit:
            return text
        parts, remaining_tokens = [], limit
        for piece in _pieces(text, PIECE_CHARS):
            tokens = self._tokens(piece)
            if len(tokens) > remaining_tokens:
                parts.append(self._codec.decode(tokens[:remaining_tokens], errors="ignore"))
                break
            parts.append(piece)
            remaining_tokens -= len(tokens)
        prefix = "".join(parts)
        while self.text(prefix) > limit:  # the shorter text may be split into other tokens
            prefix = prefix[:-1]
        return prefix


def counter_for(model: str | None) -> TokenCounter:
    """Return the shared counter of a model, by tiktoken's own model map.

    A LiteLLM provider prefix (`openai/gpt-4o`) is ignored. An unknown model, or one whose
    encoding is not shipped offline, counts as `o200k_base`.
    """
    if model is None:
        return _counter(DEFAULT_ENCODING)
    try:
        encoding = tiktoken.encoding_name_for_model(model.rsplit("/", 1)[-1])
    except KeyError:
        encoding = DEFAULT_ENCODING
    return _counter(encoding if encoding in _SHIPPED else DEFAULT_ENCODING)


def content_text(content: object) -> str:
    """Return the text of a message's content: a string, None, or content parts.

    Parts are joined by line breaks; a part without text of its own gives its JSON text, a media
    part nothing.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json_text(content)
    return "\n".join(_part_text(part) for part in content if not _is_media(part))


def call_parts(tool_call: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the arguments' text of an OpenAI tool call, each empty if absent."""
    body = tool_call.get("function") or tool_call.get("custom") or {}
    name = str(body.get("name") or "")
    arguments = body.get("arguments", body.get("input"))
    if arguments is None:
        return name, ""
    return name, arguments if isinstance(arguments, str) else json_text(arguments)


def arguments_of(message: Mapping[str, Any], call: int) -> str:
    """Return the arguments' text of a message's call, by its number."""
    return call_parts(message["tool_calls"][call])[1]


def json_text(value: object) -> str:
    """Return `value` as compact JSON, keys in their order, characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def well_formed(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _counter(encoding: str) -> TokenCounter:
    return TokenCounter(encoding)


@cache
def _codec(encoding: str) -> tiktoken.Encoding:
    """Load tiktoken's codec, from a shipped file if there is one. Special tokens are plain text."""
    if encoding not in _SHIPPED:
        return tiktoken.get_encoding(encoding)
    pattern, ranks = encoding_of(_SHIPPED[encoding])
    codec = tiktoken.Encoding(encoding, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    _byte_lengths[encoding] = np.fromiter(map(len, ranks), np.uint8, len(ranks))
    ranks.clear()  # 22 MB for o200k_base, which counting has in a table of its own
    return codec


def _is_media(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _MEDIA_TYPES


def _part_text(part: object) -> str:
    """Return the text of a content part: its own, or its JSON."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        for key in ("text", "refusal"):
            if isinstance(part.get(key), str):
                return str(part[key])
    return json_text(part)


def _pieces(text: str, size: int) -> Iterator[str]:
    """Yield `text` in pieces of at most `size` characters, cut at token boundaries."""
    start = 0
    while len(text) - start > size:
        end = start + size
        for boundary in _TOKEN_BOUNDARY.finditer(text, start + size // 2, end):
            end = boundary.start()
        yield text[start:end]
        start = end
    yield text[start:]
