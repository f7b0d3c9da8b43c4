"""Shorten a request to an estimated number of tokens, without a tokenizer.

Texts are kept first, then the newest results. Tokens are estimated from bytes. The bytes per token
come from earlier token counts if there are any. The model's context window comes from a provider's
refusal. Before the first refusal, a request is sent in full, because an estimate could cut a
request that fits. Long because a request is measured, cut and learned from in one place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.dialects import MessagePlan, Transcript
from contextrender_bridge.dialects.contents import CutText, media_count
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.histories import Size
from contextrender_bridge.proxy.refusals import COUNTED_SHARE, RETRY_SHARE, Refusal

BYTES_PER_TOKEN = 3.0
"""The bytes per token without earlier counts: text and code have more, hashes have fewer."""
MEDIA_TOKENS = 1_600
SPARE = 0.97
"""The share of the window to fill, because the bytes per token are an estimate."""
MIN_BYTES = 400
"""The minimum size, in bytes, to which the newest result or a user message is cut."""
MAX_RETRY_SHARE = 0.95
"""The largest size of a retry, as a share of the refused request's bytes."""
MAX_CUT_ATTEMPTS = 5
"""The maximum number of attempts to cut a request to a smaller size."""
MAX_MODELS = 256
"""The maximum number of models whose windows are remembered."""

_ANSWER_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_ITEMS = ("messages", "input")


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

        Forget the models that were added first if there are more than `MAX_MODELS`.
        """
        if isinstance(model, str):
            self._limits[model] = min(limit, self._limits.get(model, limit))
            while len(self._limits) > MAX_MODELS:
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
        self,
        windows: Windows,
        raw: bytes,
        parsed: Body,
        fields: Mapping[str, Any],
        dialect: str,
        size: Size,
    ) -> None:
        """Prepare the request without cutting it.

        `raw` are the bytes of the agent's request, and `parsed` is the same request. `fields` are
        the fields of the current body. `size` is the size of the history at its previous call: the
        tokens that the service counted then, and the number of messages that they were counted in.
        """
        self._windows, self._raw, self._parsed, self._size = windows, raw, parsed, size
        self._dialect = dialect
        self._model = parsed.fields.get("model")
        self._body = fields
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


class MeasuredRequest:
    """A request with the sizes, in bytes, of its messages and of its other fields."""

    def __init__(self, body: Mapping[str, Any], transcript: Transcript) -> None:
        """Encode every message to measure it; this is slow for long requests."""
        self.body, self.transcript = body, transcript
        self.bytes_per_token = BYTES_PER_TOKEN
        self._other_bytes = len(wire.dumps({k: v for k, v in body.items() if k not in _ITEMS}))
        self._sizes = [len(wire.dumps(m)) for m in transcript.messages]
        self._media_counts = [media_count(m) for m in transcript.messages]

    def count_as(self, tokens: int, messages: int) -> None:
        """Set the bytes per token from a count of the service.

        The service counted `tokens` in the first `messages` messages. Providers may count more, so
        assume only `COUNTED_SHARE` of the bytes per token. Do nothing if there was no text.
        """
        size = sum(self._sizes[:messages])
        media = MEDIA_TOKENS * sum(self._media_counts[:messages])
        if tokens > media and size:
            self.bytes_per_token = max(1.0, COUNTED_SHARE * size / (tokens - media))

    @property
    def tokens(self) -> int:
        """The estimated number of the request's tokens, without its answer."""
        text_bytes = sum(self._sizes) + self._other_bytes
        media_tokens = MEDIA_TOKENS * sum(self._media_counts)
        return int(text_bytes / self.bytes_per_token) + media_tokens

    def shorten(self, window: int) -> Json:
        """Return a body that, together with its answer, is estimated to fit in `window` tokens.

        Omit results with their calls first, then texts, and in both cases the oldest first. The
        first and the last user message and the newest result are never omitted. They are cut if
        necessary.
        """
        # Reserve the tokens that the request allows for the answer.
        answer_tokens = max(
            (self.body[name] for name in _ANSWER_LIMITS if isinstance(self.body.get(name), int)),
            default=0,
        )
        if answer_tokens >= window / 2:
            answer_tokens = 0  # Such a large limit is no estimate of the answer's length.
        max_bytes = int((window - answer_tokens) * SPARE * self.bytes_per_token)
        return self.transcript.apply(self._plan(max_bytes))

    def _plan(self, max_bytes: int) -> MessagePlan:
        """Return the plan of a request with at most about `max_bytes` bytes.

        First select the texts, and cut the user's texts if necessary. Then add the results, newest
        first, that fit into the remaining bytes. Cut the newest result if it does not fit.
        """
        messages = self.transcript.messages
        # `calls_of` maps each result's position to its call: the calling message's position, and
        # the number of the call in that message. `weights` are the bytes that showing each message
        # takes. All messages with content but the results are texts.
        calls_of = self.transcript.call_pairs.call_of_result
        weights = self._weights(calls_of)
        texts = [n for n, m in enumerate(messages) if n not in calls_of and m.get("content")]
        selected, remaining = _select_texts(messages, texts, weights, max_bytes - self._other_bytes)
        # Cut the user's texts until at least `MIN_BYTES` remain for the newest result. They are not
        # added to `remaining`, because the newest result gets at least `MIN_BYTES` in any case.
        cuts = _cut_user_texts(messages, selected, self._sizes, excess=MIN_BYTES - remaining)
        newest = max(calls_of, default=-1)
        results: set[int] = set()
        for result in sorted(calls_of, reverse=True):
            if weights[result] <= remaining:
                remaining -= weights[result]
                results.add(result)
            elif result == newest:
                # Cut the newest result to the remaining bytes. No other result is added then.
                excess = weights[result] - remaining
                cuts[newest], remaining = max(self._sizes[result] - excess, MIN_BYTES), 0
                results.add(result)
        # Make a plan with the selected messages, and set the shorter texts in it.
        plan = self.transcript.plan(_plan_rows(messages, selected, results, calls_of))
        for message, size in cuts.items():
            plan.replace(message, _cut(messages[message], size))
        return plan

    def _weights(self, calls_of: Mapping[int, tuple[int, int]]) -> list[int]:
        """Return the bytes to count for each message.

        An image counts as `MEDIA_TOKENS`. A call counts for its result, not for the calling
        message, because both are shown or omitted together.
        """
        messages = self.transcript.messages
        bytes_per_image = int(MEDIA_TOKENS * self.bytes_per_token)
        weights = [
            size + bytes_per_image * count
            for size, count in zip(self._sizes, self._media_counts, strict=True)
        ]
        for result, (caller, number) in calls_of.items():
            size = len(wire.dumps(messages[caller]["tool_calls"][number]))
            weights[caller] -= size
            weights[result] += size
        return weights


def _select_texts(
    messages: Sequence[Json], texts: Sequence[int], weights: Sequence[int], max_bytes: int
) -> tuple[set[int], int]:
    """Return the positions of the texts to show, and the bytes that remain of `max_bytes`.

    `texts` are the positions to choose from. System prompts, the texts from the last answer on, and
    the first and last user message are always shown, so the remaining bytes may be negative. Then
    add the other texts, newest first, until one does not fit.
    """
    from_user = [n for n in texts if messages[n]["role"] == "user"]
    last_answer = max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=0)
    selected = {
        n for n in texts if messages[n]["role"] in ("system", "developer") or n >= last_answer
    }
    selected.update(from_user[:1] + from_user[-1:])
    remaining = max_bytes - sum(weights[n] for n in selected)
    for n in sorted(set(texts) - selected, reverse=True):
        if weights[n] > remaining:
            break
        selected.add(n)
        remaining -= weights[n]
    return selected, remaining


def _cut_user_texts(
    messages: Sequence[Json], selected: set[int], sizes: Sequence[int], excess: int
) -> dict[int, int]:
    """Choose selected user messages to cut, so that `excess` bytes are saved if possible.

    Cut the longest first, to no less than `MIN_BYTES` each. Return a dictionary that maps the
    position of each message to cut to its new size.
    """
    cuts: dict[int, int] = {}
    for n in sorted(selected, key=lambda n: -sizes[n]):
        if excess > 0 and messages[n]["role"] == "user" and sizes[n] > MIN_BYTES:
            cuts[n] = max(sizes[n] - excess, MIN_BYTES)
            excess -= sizes[n] - cuts[n]
    return cuts


def _plan_rows(
    messages: Sequence[Json],
    selected: set[int],
    results: set[int],
    calls_of: Mapping[int, tuple[int, int]],
) -> list[Json]:
    """Return plan rows, in the format of a render reply, that show these texts and results.

    A result's call is shown with it. If a message's calls are shown but not its text, its row has
    an empty text. In any other row, the text None means that the message's own text is shown.
    """
    calls: dict[int, list[int]] = {}
    for result in results:
        caller, number = calls_of[result]
        calls.setdefault(caller, []).append(number)
    rows: list[Json] = []
    for n, message in enumerate(messages):
        is_shown = n in selected or n in results
        if is_shown or n in calls:
            text = None if is_shown or not message.get("content") else ""
            rows.append({"message": n, "calls": sorted(calls.get(n, ())), "text": text})
    return rows


def _cut(message: Json, size: int) -> CutText:
    """Return the message's text, cut to about `size` characters."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    text = "\n".join(str(p.get("text") or "") for p in parts if isinstance(p, dict))
    return CutText(text, size)
