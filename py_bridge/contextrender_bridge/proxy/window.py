"""Requests that would not fit the model's window, shortened to fit: without the service, too.

What a model takes is in LiteLLM's table, or in a provider's refusal, which is remembered.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

from contextrender_bridge.base import wire
from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.setting_kinds import SMALLEST_BUDGET
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.proxy.conversations import Size
from contextrender_bridge.proxy.shortening import BYTES_A_TOKEN, COUNTED_SHARE, Measured

REFUSALS = (400, 413, 422)
FEWEST_BYTES = 2.0
"""A request with fewer bytes for each token of the window is not looked at."""
AGAIN = 0.6
"""Of what was refused, so much is tried next where nobody says how much may be."""
TRIES = 6
REMEMBERED = 256

_TOO_LONG = re.compile(
    rb"context_length_exceeded|maximum context length|context window|prompt is too long"
    rb"|exceed context limit|maximum number of tokens|input is too long",
    re.I,
)
_NUMBER = rb"([\d,_]*\d)"
_MOST = re.compile(
    rb"maximum context length (?:is|of) "
    + _NUMBER
    + rb"|> "
    + _NUMBER
    + rb"|tokens allowed \("
    + _NUMBER
)
_COUNTED = re.compile(
    rb"resulted in " + _NUMBER + rb" tokens|too long: " + _NUMBER + rb" tokens"
    rb"|token count \(" + _NUMBER
)


@dataclass(frozen=True)
class Refusal:
    """What a provider says of a request that is too long: the most it takes, what it counted."""

    most: int | None
    counted: int | None

    @classmethod
    def read(cls, status: int, body: bytes) -> Refusal | None:
        """None where it refuses for another reason."""
        if status not in REFUSALS or not _TOO_LONG.search(body):
            return None
        return cls(_number(_MOST, body), _number(_COUNTED, body))

    def room(self, shown: int) -> int:
        """The tokens of history that may be taken, where a prompt with `shown` of them was not."""
        if not (self.most and self.counted):
            return max(int(AGAIN * shown), SMALLEST_BUDGET)
        return max(int(COUNTED_SHARE * (self.most - self.counted + shown)), SMALLEST_BUDGET)


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


class Windowed:
    """One request, and what of it fits the model's window."""

    def __init__(
        self, windows: Windows, dialect: str, model: object, raw: bytes, size: Size
    ) -> None:
        """`size` is what the service counted of the history, if it did."""
        self._windows, self._dialect, self._model, self._raw = windows, dialect, model, raw
        self._size = size
        self._known: Measured | None = None
        self._share = 1.0
        self._refused = False
        self.shortened_to = 0
        """Tokens; none while all is sent."""

    def content(self) -> bytes:
        """What to send: all of it, unless that does not fit, or probably would not."""
        window = self._windows.of(self._model)
        if window is None or not (self._refused or len(self._raw) >= FEWEST_BYTES * window):
            return self._raw
        if not self._refused and self._measured.tokens <= window:
            return self._raw
        self.shortened_to = int(window * self._share)
        return wire.dumps(self._measured.within(self.shortened_to))

    def refused(self, status: int, said: bytes) -> bool:
        """Whether a reply says that it is too long; what it says is remembered."""
        refusal = Refusal.read(status, said)
        if refusal is None:
            return False
        sent, known = self.shortened_to or self._measured.tokens, self._windows.of(self._model)
        most = refusal.most or (None if self._windows.lists(self._model) else int(AGAIN * sent))
        if most:
            self._windows.remember(self._model, most)
        if refusal.counted:
            self._measured.ratio *= sent / refusal.counted
            self._windows.counted(self._model, self._measured.ratio)
        elif self._refused and known == self._windows.of(self._model):
            self._share *= AGAIN
        elif known and sent < known:  # its tokens are shorter than was thought
            self._measured.ratio *= AGAIN * sent / known
        self._refused = True
        return True

    @property
    def _measured(self) -> Measured:
        if self._known is None:
            body = wire.loads(self._raw)
            self._known = Measured(body, dialect_of(self._dialect, body).read(body))
            self._known.ratio = self._windows.ratio(self._model)
            if self._size.messages and self._size.tokens:
                self._known.count_as(self._size.tokens, self._size.messages)
        return self._known


def _number(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    found = pattern.search(text)
    digits = next((group for group in found.groups() if group), b"") if found else b""
    return int(re.sub(rb"[,_]", b"", digits)) if digits else None
