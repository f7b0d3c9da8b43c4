"""The bodies to send for one model call: the first one, and another one after each refusal.

A body may be cut to the model's context window. The window and the bytes per token come from a
provider's refusal. Before the first refusal, a request is sent in full, because an estimate could
cut a request that fits. Long because each body is made from the one before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.conversations import ProxiedCall, Size
from contextrender_bridge.proxy.refusals import RETRY_SHARE, Refusal
from contextrender_bridge.proxy.replies import REFUSED, ReplyStart, UsageCapture, late_refusal
from contextrender_bridge.proxy.shortening import BYTES_PER_TOKEN, MeasuredRequest

MAX_RETRIES = 2
"""The maximum number of retries of one model call."""
LAST_SHARE = 0.35
"""The size of the last retry after two refusals without numbers, as a share of the second try."""
MAX_NEXT_SHARE = 0.9
"""The largest size of the history's next request, as a share of a request refused as too long."""
MAX_RETRY_SHARE = 0.95
"""The largest size of a retry, as a share of the refused request's bytes."""
MAX_CUT_ATTEMPTS = 5
"""The maximum number of attempts to cut a request to a smaller size."""
MAX_MODELS = 256
"""The maximum number of models whose windows are remembered."""


class CallAttempts:
    """The requests for one model call.

    If the provider refuses a request as too long, the next one is smaller. If it refuses a rendered
    history for an unknown reason, the next request has the full history.
    """

    def __init__(self, call: ProxiedCall, request: WindowedRequest) -> None:
        """Prepare the requests of `call`. `request` is the agent's original request."""
        self.truncated_to = 0
        """The tokens to which the last body to send was cut; 0 if it was not cut."""
        self._call = call
        self._conversation = call.conversation
        self.request = request
        self.may_change = call.controls.mode == "render" or call.controls.is_compaction_call
        """True if the proxy may send a body that differs from the agent's."""
        self._is_rendered = call.controls.mode == "render" and call.fit.changed
        self._refusal_count = 0
        # A history that was refused in spite of retries is not retried until a call is accepted.
        may_retry = self.may_change and not self._conversation.was_refused_after_retry
        self._retries_left = MAX_RETRIES if may_retry else 0
        self.sends_full_after_refusal = False
        """True if the full history is sent because the provider refused the rendered one."""

    @property
    def delivery(self) -> str:
        """The delivery to record: `rendered`, `full` or `holdout`.

        It is `full` if the provider refused the rendered history, or rendering failed.
        """
        fit = self._call.fit
        is_unchanged_by_failure = bool(fit.failure) and not fit.changed
        if self.sends_full_after_refusal or is_unchanged_by_failure:
            return "full"
        return self._call.controls.delivery

    def first_content(self) -> bytes:
        """Return the first body to send, and remember whether it is cut."""
        content = self._first_content()
        self.truncated_to = self.request.truncated_to
        return content

    def _first_content(self) -> bytes:
        """Return the first body to send: the rendered history, or the agent's request.

        If the provider refused this history's rendered form before and accepted the full one,
        return the full one. If it refused a body of this history as too long, cut this body to the
        limit `max_bytes` that is remembered since then.
        """
        conversation = self._conversation
        max_bytes = conversation.max_bytes
        if not self._is_rendered:
            # If the proxy may not change the request, send it even above the limit.
            return self.request.full(max_bytes if self.may_change else None)
        if conversation.accepts_only_full:
            self.sends_full_after_refusal = True
            return self.request.full(max_bytes)
        content = self.request.rendered(self._call.fit.body)
        if max_bytes is None or max_bytes >= len(content):
            return content
        # If the request cannot be made this small, try it as it is.
        shorter_content = self.request.smaller(len(content), share=max_bytes / len(content))
        return shorter_content or content

    def content_after(self, content: bytes, start: ReplyStart) -> bytes | None:
        """Return the body to retry with after the reply to `content`, or None for no retry.

        `start` is the beginning of the reply. If the provider refused `content` as too long, return
        a smaller body. If it refused a rendered history for another reason, return the full history
        instead, or vice versa. Return None if the provider answered, no other body is possible or
        no retry is left: the agent then gets this reply. Remember the outcome for the next call.
        """
        if not start.is_refused:
            self._record_acceptance(content)
            return None
        self._refusal_count += 1
        # `refusal` is set only for a prompt that is too long.
        if start.refusal is not None:
            retry = self._smaller_content(content, start.refusal)
        elif start.response.status_code == REFUSED and self._is_rendered:
            retry = self._other_form(content)
        else:
            retry = None
        has_retried = self._retries_left < MAX_RETRIES
        if retry is None or not self._retries_left:
            # If retries did not help, the history's next call is not retried.
            self._conversation.was_refused_after_retry = has_retried
            return None
        self._retries_left -= 1
        # A header of the reply reports to how many tokens the retry is cut, if it is.
        self.truncated_to = self.request.truncated_to
        return retry

    def note_late_refusal(self, content: bytes, reply: UsageCapture) -> None:
        """Remember the limit if the `reply` to `content` ends with a refusal as too long.

        The agent has the beginning of this reply already, so the call cannot be retried.
        """
        is_stream = reply.is_accepted and "event-stream" in reply.content_type
        refusal = late_refusal(reply.plain_body) if is_stream and self.may_change else None
        if refusal is not None:
            self._refusal_count += 1
            self._remember_limits(content, refusal)

    def _record_acceptance(self, content: bytes) -> None:
        """Remember for the history's next call that the provider accepted `content`."""
        conversation = self._conversation
        conversation.was_refused_after_retry = False
        conversation.accepts_only_full = self.sends_full_after_refusal
        if self._refusal_count and conversation.max_bytes:
            # A retry had to be as small as this, so the next call may not be larger.
            conversation.max_bytes = min(conversation.max_bytes, len(content))

    def _other_form(self, content: bytes) -> bytes | None:
        """Return the full history if the rendered one was refused, and vice versa.

        `content` is the refused body. Return None if this call has already sent both, or if the
        full history was refused and the rendered one is not smaller.
        """
        conversation = self._conversation
        # An earlier call may have set `accepts_only_full`. Then this call began with the full one.
        began_with_full = conversation.accepts_only_full
        was_rendered_refused = not self.sends_full_after_refusal and not began_with_full
        if was_rendered_refused:
            self.sends_full_after_refusal = True
            return self.request.full(conversation.max_bytes)
        # The full history was refused. Send the rendered one, unless this call has tried it.
        rendered = self.request.rendered(self._call.fit.body)
        if began_with_full and len(rendered) < len(content):
            self.sends_full_after_refusal = conversation.accepts_only_full = False
            return rendered
        return None

    def _smaller_content(self, content: bytes, refusal: Refusal) -> bytes | None:
        """Return a body that is smaller than the refused `content`, or None if none is possible.

        Also remember the refusal's limits for later calls.
        """
        self._remember_limits(content, refusal)
        share = refusal.share
        if self._refusal_count > 1 and not refusal.prompt_tokens:
            # Without token counts, `refusal.share` is always the same. The first retry had this
            # share and was refused, so use a smaller one.
            share = LAST_SHARE
        return self.request.smaller(len(content), share)

    def _remember_limits(self, content: bytes, refusal: Refusal) -> None:
        """Remember the limits that a refusal of `content` shows, for the model and the history."""
        self.request.learn(refusal)
        conversation, reply = self._conversation, self._call.fit.reply
        history_tokens = reply["tokens_after"] if reply else conversation.size.tokens
        if history_tokens and not self.sends_full_after_refusal:
            # The service renders the history's next prompt within this limit.
            conversation.max_tokens = refusal.next_budget(history_tokens)
        if self._refusal_count > 1 or not refusal.prompt_tokens:
            # There are no token counts, or they gave no request that fits. So limit the bytes of
            # the history's next request, too.
            conversation.max_bytes = int(len(content) * min(refusal.share, MAX_NEXT_SHARE))


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
