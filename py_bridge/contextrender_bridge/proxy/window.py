"""Requests cut to the model's context window, even if the service does not answer.

The window and the bytes per token come from a provider's refusal. Before one, a request is sent
whole, because an estimate could cut a request that fits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.conversations import Size
from contextrender_bridge.proxy.refusals import RETRY_SHARE, Refusal
from contextrender_bridge.proxy.shortening import BYTES_PER_TOKEN, MeasuredRequest

MAX_RETRY_SHARE = 0.95
"""The largest size of a retry, as a share of the refused request's bytes."""
MAX_CUT_ATTEMPTS = 5
"""The maximum number of attempts to cut a request to a smaller size."""
REMEMBERED = 256


class Windows:
    """The context windows of models, and their bytes per token, from providers' refusals."""

    def __init__(self) -> None:
        """Begin without any refusal."""
        self._limits: OrderedDict[str, int] = OrderedDict()
        """The smallest limit, in tokens, of each model's refusals."""
        self._bytes_per_token: dict[str, float] = {}
        """The bytes per token of each model whose refusals counted the prompt's tokens."""

    def window(self, model: object) -> int | None:
        """Return a model's window in tokens, or None if it is unknown.

        A request's tokens are estimated from the model's bytes per token. If no refusal of the
        model counted the prompt's tokens, the estimate is too rough and could cut a request that
        fits. So then return None, too.
        """
        return self._limits.get(str(model)) if str(model) in self._bytes_per_token else None

    def remember(self, model: object, limit: int) -> None:
        """Remember a refusal's limit in tokens, unless the model had a smaller one before.

        Forget the models that were added first if there are more than `REMEMBERED`.
        """
        if isinstance(model, str):
            self._limits[model] = min(limit, self._limits.get(model, limit))
            while len(self._limits) > REMEMBERED:
                oldest_model, _ = self._limits.popitem(last=False)
                self._bytes_per_token.pop(oldest_model, None)

    def bytes_per_token(self, model: object) -> float:
        """Return the model's bytes per token from its last refusal, or the default."""
        return self._bytes_per_token.get(str(model), BYTES_PER_TOKEN)

    def remember_bytes_per_token(self, model: object, ratio: float) -> None:
        """Remember the bytes per token of a refused request. Ignore a model without a limit."""
        if model in self._limits:
            self._bytes_per_token[str(model)] = ratio


class WindowedRequest:
    """One model call's request, which can be cut to the model's context window.

    The current body, `_body`, is the agent's own or a rendered one. `full` and `rendered` set it,
    and `smaller` cuts it.
    """

    def __init__(
        self, windows: Windows, raw: bytes, parsed: Body, dialect: str, size: Size
    ) -> None:
        """Prepare the request without cutting it.

        `raw` are the bytes of the agent's request, and `parsed` is the same request. `size` is the
        size of the history at its previous call: the tokens that the service counted then, and the
        number of messages that they were counted in.
        """
        self._windows, self._raw, self._parsed, self._size = windows, raw, parsed, size
        self._dialect = dialect
        self._model = parsed.fields.get("model")
        self._body: Mapping[str, Any] = parsed.fields
        self._measured_request: MeasuredRequest | None = None
        self.truncated_to = 0
        """The tokens to which the request was cut; 0 if it was not cut."""

    def full(self, max_bytes: int | None) -> bytes:
        """Return the full request, cut if it exceeds `max_bytes` or the model's window.

        `max_bytes` is the limit from an earlier refusal of this history, None without one. If
        neither limit is known, return the request unchanged.
        """
        self._use(self._parsed.fields)
        window = self._windows.window(self._model)
        if max_bytes is not None and len(self._raw) > max_bytes:
            # If it cannot be cut to this size, send it as it is.
            return self.smaller(len(self._raw), max_bytes / len(self._raw)) or self._raw
        if window is None or self._measured.tokens <= window:
            return self._raw
        return self._cut(window)

    def rendered(self, body: Mapping[str, Any]) -> bytes:
        """Encode a rendered body, with the original bytes of its unchanged items."""
        self._use(body)
        return self._parsed.splice(self._raw, body)

    def smaller(self, size: int, share: float) -> bytes | None:
        """Return the current body, cut to about `share` of its present tokens.

        `size` is the present number of bytes. The tokens are estimated, so the cut body may be
        hardly smaller in bytes. If it has more than `MAX_RETRY_SHARE` of `size`, cut it further, in
        at most `MAX_CUT_ATTEMPTS` attempts in all. If it stays too large, return None and restore
        `truncated_to`, which each cut sets.
        """
        previous_tokens = self.truncated_to
        tokens = previous_tokens or self._measured.tokens
        for _ in range(MAX_CUT_ATTEMPTS):
            tokens = int(tokens * min(share, MAX_RETRY_SHARE))
            if tokens <= 0:
                break
            content = self._cut(tokens)
            if len(content) < MAX_RETRY_SHARE * size:
                return content
            share = RETRY_SHARE
        self.truncated_to = previous_tokens
        return None

    def learn(self, refusal: Refusal) -> None:
        """Remember the model's window and bytes per token from a refusal that has the numbers."""
        if refusal.limit:
            self._windows.remember(self._model, refusal.limit)
        if refusal.prompt_tokens:
            # Correct the estimate by the provider's count of the same prompt.
            estimate = self.truncated_to or self._measured.tokens
            self._measured.bytes_per_token *= estimate / refusal.prompt_tokens
            self._windows.remember_bytes_per_token(self._model, self._measured.bytes_per_token)

    def _cut(self, tokens: int) -> bytes:
        """Return the current body, cut to about this number of tokens, and set `truncated_to`."""
        self.truncated_to = tokens
        return self._parsed.splice(self._raw, self._measured.shorten(tokens))

    def _use(self, body: Mapping[str, Any]) -> None:
        """Make `body` the current body. A new one is not measured and not cut yet."""
        if self._body is not body:
            self._body, self._measured_request, self.truncated_to = body, None, 0

    @property
    def _measured(self) -> MeasuredRequest:
        """The current body with its messages' sizes, which are measured at the first access."""
        if self._measured_request is None:
            reader = dialect_of(self._dialect, self._body)
            self._measured_request = MeasuredRequest(self._body, reader.read(self._body))
            ratio = self._windows.bytes_per_token(self._model)
            self._measured_request.bytes_per_token = ratio
            # The service counted the messages of the agent's request, not of a rendered one.
            is_original = self._body is self._parsed.fields
            if is_original and self._size.message_count and self._size.tokens:
                self._measured_request.count_as(self._size.tokens, self._size.message_count)
        return self._measured_request
