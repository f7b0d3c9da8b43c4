"""Requests that would not fit the model's window, shortened to fit: without the service, too.

What a model takes is in LiteLLM's table, or in a provider's refusal, which is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.conversations import Size
from contextrender_bridge.proxy.refusals import AGAIN, Refusal
from contextrender_bridge.proxy.shortening import BYTES_A_TOKEN, Measured
from contextrender_bridge.proxy.splicing import spliced

FEWEST_BYTES = 2.0
"""A request with fewer bytes for each token of the window is not looked at."""
SMALLER = 0.95
"""A request is tried again only with at most this share of the bytes."""
LEAST = 5
"""So often a request is made smaller here before it is given up."""
REMEMBERED = 256


class Windows:
    """What models take, as the table and their providers say."""

    def __init__(self) -> None:
        """No provider has refused anything."""
        self._refused: OrderedDict[str, int] = OrderedDict()
        self._ratios: dict[str, float] = {}

    def of(self, model: object) -> int | None:
        """The most tokens of a model's prompt and answer; None where nobody knows."""
        if not isinstance(model, str):
            return None
        known = [n for n in (self._refused.get(model), window_of(model)) if n]
        return min(known, default=None)

    def lists(self, model: object) -> bool:
        """Whether the table has it."""
        return isinstance(model, str) and window_of(model) is not None

    def remember(self, model: object, most: int) -> None:
        """A provider takes no more of that model's."""
        if isinstance(model, str):
            self._refused[model] = min(most, self._refused.get(model, most))
            while len(self._refused) > REMEMBERED:
                self._ratios.pop(self._refused.popitem(last=False)[0], None)

    def ratio(self, model: object) -> float:
        """Bytes a token, as its provider counted last."""
        return self._ratios.get(str(model), BYTES_A_TOKEN)

    def counted(self, model: object, ratio: float) -> None:
        """What it counted of a request that it refused."""
        if model in self._refused:
            self._ratios[str(model)] = ratio


class WindowedRequest:
    """One request, and as much of it as the model takes."""

    def __init__(self, windows: Windows, raw: bytes, read: Body, dialect: str, size: Size) -> None:
        """`raw` came and was read as `read`; `size` is what the service counted, if it did."""
        self._windows, self._raw, self._read, self._size = windows, raw, read, size
        self._key = DIALECTS[dialect].key
        self._dialect = dialect
        self._model = read.fields.get("model")
        self._body: Mapping[str, Any] = read.fields
        self._known: Measured | None = None
        self.truncated_to = 0
        """Tokens; 0 while nothing is cut here."""

    def whole(self, most: int | None) -> bytes:
        """Return all of the request, or what fits if it is known not to fit.

        `most` are the bytes that the provider is known to take of this history.
        """
        self._use(self._read.fields)
        window = self._windows.of(self._model)
        if most is not None and len(self._raw) > most:
            return self.smaller(len(self._raw), most / len(self._raw)) or self._raw
        if window is None or len(self._raw) < FEWEST_BYTES * window:
            return self._raw
        if self._measured.tokens <= window:
            return self._raw
        return self._cut(window)

    def rendered(self, body: Mapping[str, Any]) -> bytes:
        """Return a rendered body in the bytes of the request."""
        self._use(body)
        return spliced(self._raw, self._read, self._key, body)

    def smaller(self, size: int, share: float) -> bytes | None:
        """Return about this share of what was sent last, which had `size` bytes.

        None if the request cannot be made smaller.
        """
        tokens = self.truncated_to or self._measured.tokens
        for _ in range(LEAST):
            tokens = int(tokens * min(share, SMALLER))
            if tokens <= 0:
                break
            content = self._cut(tokens)
            if len(content) < SMALLER * size:
                return content
            share = AGAIN
        return None

    def learn(self, refusal: Refusal) -> None:
        """Remember what a refusal says of the model that was sent this request."""
        sent = self.truncated_to or self._measured.tokens
        unlisted = None if self._windows.lists(self._model) else int(AGAIN * sent)
        if most := refusal.most or unlisted:
            self._windows.remember(self._model, most)
        if refusal.counted:
            self._measured.ratio *= sent / refusal.counted
            self._windows.counted(self._model, self._measured.ratio)

    def _cut(self, tokens: int) -> bytes:
        self.truncated_to = tokens
        left = self._measured.within(tokens)
        return spliced(self._raw, self._read, self._key, left)

    def _use(self, body: Mapping[str, Any]) -> None:
        if self._body is not body:
            self._body, self._known, self.truncated_to = body, None, 0

    @property
    def _measured(self) -> Measured:
        if self._known is None:
            reader = dialect_of(self._dialect, self._body)
            self._known = Measured(self._body, reader.read(self._body))
            self._known.ratio = self._windows.ratio(self._model)
            if self._body is self._read.fields and self._size.messages and self._size.tokens:
                self._known.count_as(self._size.tokens, self._size.messages)
        return self._known
