"""The proxy's state of each history and of each model call."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.dialects import Transcript
from contextrender_bridge.dialects.contents import media_count
from contextrender_bridge.proxy.request import Controls

MEDIA_TOKENS = 800
REMEMBERED = 1024


@dataclass(frozen=True)
class Size:
    """The size of a history at its last rendering. All fields are 0 before the first one.

    The history had `message_count` messages, in which the service counted `tokens` tokens. `budget`
    is the budget that it used, in tokens.
    """

    message_count: int = 0
    tokens: int = 0
    budget: int = 0

    def fits(
        self, messages: Sequence[Json], recorded_count: Callable[[], int], budget: int | str | None
    ) -> bool:
        """Return whether the history `messages` is certain to fit the budget, without the service.

        The service has counted the first `message_count` messages. Of those after them, each byte
        counts as one token, because no token is shorter, and media are estimated. `recorded_count`
        returns how many of the first messages are known to be recorded. If these are fewer than the
        counted ones, the history may have changed, so return False.
        """
        # Without a number as budget, use the last budget, for example the automatic one.
        limit = budget if isinstance(budget, int) else self.budget
        if not limit or self.tokens > limit:
            return False
        new = messages[self.message_count :]
        new_tokens = len(wire.dumps(new)) + MEDIA_TOKENS * sum(map(media_count, new))
        return self.tokens + new_tokens <= limit and self.message_count <= recorded_count()


@dataclass
class Conversation:
    """The state of one history.

    - `system`: the system prompt of the first call. It is recorded with every call, because a
      prompt that changes with each call would start a branch each time.
    - `accepts_only_full`: the provider refused the rendered history and accepted the full one.
    - `max_tokens`, `max_bytes`: limits of prompt and request after the provider refused one as too
      long; None without such a refusal.
    - `was_refused_after_retry`: the provider refused the last call, and a retry of it.
    - `calls`, `failed_open`: the number of model calls, and of those that failed open.
    - `usage_report`: the newest call's usage, until it is sent to the service; None after that.
    - `recording`: the last call that was sent without waiting for the service. None without one,
      and once it is recorded.
    """

    system: list[Json] = field(default_factory=list)
    branch: int | None = None
    size: Size = field(default_factory=Size)
    accepts_only_full: bool = False
    was_refused_after_retry: bool = False
    max_tokens: int | None = None
    max_bytes: int | None = None
    has_warned: bool = False
    calls: int = 0
    failed_open: int = 0
    usage_report: Mapping[str, Any] | None = None
    recording: asyncio.Task[RenderedRequest] | None = field(default=None, repr=False)

    def limited_budget(self, budget: int | str | None) -> int | str | None:
        """Return `budget`, limited to `max_tokens` if that is set.

        In that case, an automatic or missing budget becomes `max_tokens`.
        """
        if self.max_tokens is None:
            return budget
        return min(budget, self.max_tokens) if isinstance(budget, int) else self.max_tokens

    def keep_first_system(self, transcript: Transcript) -> None:
        """Replace a transcript's leading system messages by those of the history's first call.

        If their number has changed, keep the transcript's own, and use them for later calls.
        """
        system = _leading_system(transcript)
        if len(system) != len(self.system):
            self.system = system
        transcript.messages[: len(system)] = self.system

    def usage_of_earlier_call(self, messages: int) -> Mapping[str, Any] | None:
        """Return the `usage_report` if it is of an earlier call, otherwise None.

        `messages` is the number of messages of the call that will send the report. An earlier call
        had fewer. The report may be of the sending call itself, if its answer came before the
        service recorded it. The service would ignore that report, as it lacks the call.
        """
        usage_report = self.usage_report
        return usage_report if usage_report and usage_report["messages"] < messages else None

    def start_recording(self, call: asyncio.Task[RenderedRequest]) -> None:
        """Keep the task `call` in `recording` until it ends.

        Drop it then, because its result has the whole request and would occupy memory.
        """
        self.recording = call
        call.add_done_callback(self._end_recording)

    def _end_recording(self, call: asyncio.Task[RenderedRequest]) -> None:
        if self.recording is call:
            self.recording = None


class Conversations:
    """The states of the `REMEMBERED` histories that were used last."""

    def __init__(self) -> None:
        """Remember no history yet."""
        self._by_key: OrderedDict[Hashable, Conversation] = OrderedDict()

    def add_state(self, call: ProxiedCall) -> ProxiedCall:
        """Return the call with the state of its history.

        Create the state if it is not remembered. Forget the least recently used ones if there are
        too many.
        """
        key = call.controls.token, call.session, call.history_key
        conversation = self._by_key.setdefault(key, Conversation())
        self._by_key.move_to_end(key)
        while len(self._by_key) > REMEMBERED:
            self._by_key.popitem(last=False)
        return replace(call, conversation=conversation)


def _leading_system(transcript: Transcript) -> list[Json]:
    """Return the system messages before the first other message."""
    system = []
    for message in transcript.messages:
        if message["role"] not in ("system", "developer"):
            break
        system.append(message)
    return system


@dataclass(frozen=True)
class ProxiedCall:
    """One model call: its session, its rendered request `fit`, and its number of `messages`.

    A call that is certain to fit, or that is only observed, does not wait for the service. Then
    `fit` is the original request, and the task `later_render` renders and records the call.
    Otherwise `later_render` is None. `messages` is 0 if the call is not recorded. `is_named` is
    false if the session's name was made from its messages. `history_key` distinguishes the
    histories of one session, and `client` names the calling program.
    """

    session: str
    fit: RenderedRequest
    conversation: Conversation
    controls: Controls
    later_render: asyncio.Task[RenderedRequest] | None = field(default=None, repr=False)
    messages: int = 0
    is_named: bool = True
    history_key: str = ""
    client: str = ""

    @property
    def model(self) -> str | None:
        """The model that the request names, or None."""
        model = self.fit.body.get("model")
        return model if isinstance(model, str) else None

    async def rendered(self, seconds: float = 0.0) -> RenderedRequest:
        """Return the rendered request.

        If the task `later_render` renders it, wait at most `seconds` for it. Return the original
        request if the task has not ended by then.
        """
        if self.later_render is None:
            return self.fit
        if seconds:
            await asyncio.wait({self.later_render}, timeout=seconds)
        return self.later_render.result() if self.later_render.done() else self.fit
