"""Texts and token counts of chat messages. Counts are offline and additive (docs/method.md).

Long because the texts of messages and calls are exactly what is counted.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
import tiktoken
from numpy.typing import NDArray

from contextrender_bridge.base.shipped import encoding_of

DEFAULT_ENCODING: Final = "o200k_base"

MESSAGE_OVERHEAD: Final = 4
"""The tokens that a chat format uses for a message's role and delimiters."""

CALL_OVERHEAD: Final = 4
"""The tokens that a chat format uses for a tool call's id and delimiters."""

MEDIA_TOKENS: Final = 765
"""The tokens counted for an image, audio or file: those of a 1024 x 1024 image at OpenAI."""

PIECE_CHARS: Final = 100_000
"""The longest text that tiktoken gets. Near 10**6 white spaces, its regex overflows its stack."""

_SHIPPED: Final = {name: name for name in ("cl100k_base", "o200k_base")} | {
    "o200k_harmony": "o200k_base"  # only the special tokens differ
}
_byte_lengths: Final[dict[str, NDArray[np.uint8]]] = {}
"""The length of every token in bytes, by the name of a loaded encoding that is shipped."""

_MEDIA_TYPES: Final = frozenset(
    {"audio", "file", "image", "image_url", "input_audio", "input_file", "input_image", "video_url"}
)
_TOKEN_BOUNDARY: Final = re.compile(r"(?<=[A-Za-z0-9])(?=\n| [A-Za-z])")


class TokenCounter:
    """A counter of tokens with one tiktoken encoding (docs/method.md, Tokens).

    Special tokens count as plain text. The count of a list of messages is the sum of its messages'
    counts.
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        """Load `encoding`. Raise ValueError if tiktoken does not know it."""
        self.encoding = encoding
        self._codec = _codec(encoding)
        self._latest: tuple[str, list[int]] = "", []
        """The last text and its tokens. A result is first counted, and then split into segments."""

    def text(self, text: str) -> int:
        """Return the number of tokens of `text`, as tiktoken counts them.

        A text above `PIECE_CHARS` characters is counted in pieces. A piece ends before a line break
        or a space, where a token ends, too. If there is no such position, the count may be a few
        tokens too high. A lone surrogate counts as U+FFFD.
        """
        if len(text) <= PIECE_CHARS:
            return len(self._tokens(text))
        return sum(len(self._codec.encode_ordinary(piece)) for piece in _pieces(text, PIECE_CHARS))

    def spread(self, text: str, ends: Sequence[int]) -> list[int]:
        """Return the number of tokens of each part of `text`. `ends` are the ends of the parts.

        The sum of the numbers is the number of tokens of the whole text. A token that begins in one
        part and ends in another counts for the part where it begins. With an encoding that is not
        shipped, each part is counted by itself.
        """
        parts = pairwise([0, *ends])
        if self.encoding not in _byte_lengths:
            return [self.text(text[start:end]) for start, end in parts]
        # The ends of the parts in bytes, because the lengths of tokens are in bytes.
        if text.isascii():
            byte_ends = np.array(ends)
        else:
            byte_ends = np.cumsum(
                [len(text[start:end].encode("utf-8", "surrogatepass")) for start, end in parts]
            )
        # Count the tokens that start before each end. The difference is the tokens of a part.
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
        """Return the number of tokens of one chat message, its tool calls included.

        An assistant message without text has no overhead of its own, because its calls have one.
        """
        return sum(self.parts(message))

    def parts(self, message: Mapping[str, Any]) -> list[int]:
        """Return the tokens of a chat message's text, and then those of each call of an assistant.

        The overhead of the message counts for the text.
        """
        content = message.get("content")
        total = self.text(content_text(content))
        if isinstance(content, list):
            total += MEDIA_TOKENS * sum(_is_media(part) for part in content)
        if message.get("role") != "assistant":
            return [total + MESSAGE_OVERHEAD]
        calls = message.get("tool_calls") or ()
        return [total + MESSAGE_OVERHEAD if total else 0, *map(self.call, calls)]

    def call(self, tool_call: Mapping[str, Any]) -> int:
        """Return the number of tokens of one tool call."""
        name, arguments = call_parts(tool_call)
        return CALL_OVERHEAD + self.text(name) + self.text(arguments)

    def cut(self, text: str, limit: int) -> str:
        """Return the beginning of `text`, as much as fits `limit` tokens."""
        if limit <= 0:
            return ""
        if self.text(text) <= limit:
            return text
        # Take whole pieces while they fit, and the first tokens of the next piece.
        parts, remaining_tokens = [], limit
        for piece in _pieces(text, PIECE_CHARS):
            tokens = self._tokens(piece)
            if len(tokens) > remaining_tokens:
                parts.append(self._codec.decode(tokens[:remaining_tokens], errors="ignore"))
                break
            parts.append(piece)
            remaining_tokens -= len(tokens)
        beginning = "".join(parts)
        while self.text(beginning) > limit:  # the shorter text may be split into other tokens
            beginning = beginning[:-1]
        return beginning


def counter_for(model: str | None) -> TokenCounter:
    """Return the shared counter of the encoding that tiktoken lists for a model.

    A LiteLLM provider prefix (`openai/gpt-4o`) is ignored. Use `o200k_base` for an unknown model,
    or if the encoding is not shipped with this package.
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

    The texts of parts are joined by line breaks. A media part is left out, and any other part
    without text is shown as JSON.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json_text(content)
    return "\n".join(_part_text(part) for part in content if not _is_media(part))


def call_parts(tool_call: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of an OpenAI tool call and its arguments as text. Both may be empty."""
    body = tool_call.get("function") or tool_call.get("custom") or {}
    name = str(body.get("name") or "")
    arguments = body.get("arguments", body.get("input"))
    if arguments is None:
        return name, ""
    return name, arguments if isinstance(arguments, str) else json_text(arguments)


def call_text(name: str, arguments: str) -> str:
    """Return a tool call as one text: its name, then its arguments."""
    return f"{name} {arguments}"


def message_texts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the texts of messages, and each call of an assistant message as one text."""
    texts: list[str] = []
    for message in messages:
        texts.append(content_text(message.get("content")))
        if message.get("role") == "assistant":
            texts += [call_text(*call_parts(call)) for call in message.get("tool_calls") or ()]
    return texts


def arguments_of(message: Mapping[str, Any], call: int) -> str:
    """Return the arguments' text of a message's call, by its number."""
    return call_parts(message["tool_calls"][call])[1]


def json_text(value: object) -> str:
    """Return `value` as compact JSON, without sorting keys or escaping characters."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def well_formed(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _counter(encoding: str) -> TokenCounter:
    """Return the shared counter of an encoding."""
    return TokenCounter(encoding)


@cache
def _codec(encoding: str) -> tiktoken.Encoding:
    """Load a codec of tiktoken, from a shipped file if there is one.

    Of a shipped encoding, also store the `_byte_lengths` of the tokens.
    """
    if encoding not in _SHIPPED:
        return tiktoken.get_encoding(encoding)
    pattern, ranks = encoding_of(_SHIPPED[encoding])
    codec = tiktoken.Encoding(encoding, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    _byte_lengths[encoding] = np.fromiter(map(len, ranks), np.uint8, len(ranks))
    ranks.clear()  # frees 22 MB for o200k_base: the codec has a table of its own
    return codec


def _is_media(part: object) -> bool:
    """Return whether a content part is an image, audio, a video or a file."""
    return isinstance(part, Mapping) and part.get("type") in _MEDIA_TYPES


def _part_text(part: object) -> str:
    """Return the text of a content part, or its JSON if it has no text."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        for key in ("text", "refusal"):
            if isinstance(part.get(key), str):
                return str(part[key])
    return json_text(part)


def _pieces(text: str, size: int) -> Iterator[str]:
    """Yield `text` in pieces of at most `size` characters, cut at token boundaries if possible."""
    start = 0
    while len(text) - start > size:
        end = start + size
        for boundary in _TOKEN_BOUNDARY.finditer(text, start + size // 2, end):
            end = boundary.start()  # the last boundary stays
        yield text[start:end]
        start = end
    yield text[start:]
