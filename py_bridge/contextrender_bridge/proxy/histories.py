"""The histories that pass through: each model call's request, made to fit by the service."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge import wire
from contextrender_bridge.async_client import AsyncContextRender
from contextrender_bridge.client_errors import Unreachable
from contextrender_bridge.dialects import Transcript
from contextrender_bridge.fitting import Failures, Fitted, dialect_of, fitted, reason_of
from contextrender_bridge.proxy.controls import Controls, line_of, session_of
from contextrender_bridge.proxy.headers import Headers
from contextrender_bridge.sent import fingerprints

Json = dict[str, Any]

REMEMBERED = 1024
PATIENCE = 3
PAUSE_SECONDS = 5.0
LATER_SECONDS = 30.0
MEDIA_TOKENS = 800
KEPT_TURNS = 4
"""For how many model calls a recalled result is shown whatever the plan says."""


@dataclass(frozen=True)
class Size:
    """What the service counted of a history's first `messages`, and the budget it used."""

    messages: int = 0
    fingerprint: bytes = b""
    tokens: int = 0
    budget: int = 0

    def fits(self, messages: Sequence[Json], budget: int | None) -> bool:
        """Whether the history that these became surely fits: no token is shorter than a byte."""
        limit = budget or self.budget
        if not limit or self.messages > len(messages):
            return False
        fresh = messages[self.messages :]
        more = len(wire.dumps(fresh)) + sum(map(_media_tokens, fresh))
        if self.tokens + more > limit:
            return False
        return fingerprints(messages, self.messages)[0] == self.fingerprint or not self.messages


@dataclass
class Line:
    """What the proxy remembers of one history.

    `system` is the system prompt as first recorded: one that changes with every call would
    otherwise make every call a branch of its own. `recalled` maps a result (its position and its
    call's id) to the last turn it is still shown in.
    """

    system: list[Json] = field(default_factory=list)
    recalled: dict[tuple[int, str], int] = field(default_factory=dict)
    branch: int | None = None
    turn: int = 0
    size: Size = field(default_factory=Size)


@dataclass(frozen=True)
class Call:
    """One model call: its session, what is sent on, and the history it belongs to.

    A call that surely fits, or that is only observed, does not wait for the service: `later` is
    what it says.
    """

    session: str
    fit: Fitted
    line: Line
    token: str | None = field(default=None, repr=False)
    later: asyncio.Task[Fitted] | None = field(default=None, repr=False)

    async def told(self, seconds: float = 0.0) -> Fitted:
        """What the service said, or for a call that did not wait for it, says within that time."""
        if self.later is None:
            return self.fit
        if seconds:
            await asyncio.wait({self.later}, timeout=seconds)
        return self.later.result() if self.later.done() else self.fit


class Pause:
    """After several failures in a row the service is left alone for a while, and not waited for."""

    def __init__(self) -> None:
        """No failure yet."""
        self._failed = 0
        self._until = 0.0

    @property
    def on(self) -> bool:
        """Whether not to ask now."""
        return time.monotonic() < self._until

    def note(self, *, failed: bool) -> None:
        """The service has answered, or failed to."""
        self._failed = self._failed + 1 if failed else 0
        if self._failed >= PATIENCE:
            self._until = time.monotonic() + PAUSE_SECONDS


class Histories:
    """Asks the service what to show; safe for any number of calls at a time."""

    def __init__(self, client: AsyncContextRender, deadline: float, *, own_token: bool) -> None:
        """`own_token`: callers that bring no token are served with the client's."""
        self.client = client
        self.failures = Failures()
        self.deadline = deadline
        self._own_token = own_token
        self._pause = Pause()
        self._recording: set[asyncio.Task[Fitted]] = set()
        self._lines: OrderedDict[Hashable, Line] = OrderedDict()

    async def fit(
        self, path: str, headers: Headers, body: Mapping[str, Any], dialect: str, asked: Controls
    ) -> Call:
        """The call as it should go to the provider. Never raises for what the service does."""
        session, line = "", Line()
        try:
            transcript = dialect_of(dialect, body).read(body)
            session = session_of(path, headers, body, transcript.messages)
            if not transcript.messages or _is_kept_elsewhere(body):
                return Call(session, Fitted(body, transcript=transcript), line, asked.token)
            reason = self._refusal(asked)
            if reason:
                self.failures.add(reason)
                return Call(session, Fitted(body, failure=reason), line, asked.token)
            name = line_of(transcript.messages)
            line = self._line((asked.token, session, name), transcript)
            work = self._fit(session, name, line, body, transcript, asked)
            if asked.mode == "observe" or self._need_not_wait(line, transcript, asked):
                later = asyncio.ensure_future(self._outcome(work, body, LATER_SECONDS))
                self._recording.add(later)
                later.add_done_callback(self._recording.discard)
                fit = Fitted(body, transcript=transcript)
                return Call(session, fit, line, asked.token, later)
            fit = await self._outcome(work, body, self.deadline)
        except Exception as failure:
            self.failures.add(reason_of(failure))
            fit = Fitted(body, failure=reason_of(failure))
        return Call(session, fit, line, asked.token)

    async def settle(self) -> None:
        """Waits until what is being recorded is."""
        while self._recording:
            await asyncio.wait(set(self._recording))

    async def _outcome(
        self, work: Coroutine[Any, Any, Fitted], body: Mapping[str, Any], seconds: float
    ) -> Fitted:
        """What the service makes of a request within that time; the original if it does not."""
        try:
            fit = await asyncio.wait_for(work, seconds)
        except Exception as failure:
            self._pause.note(failed=_is_outage(failure))
            self.failures.add(reason_of(failure))
            return Fitted(body, failure=reason_of(failure))
        self._pause.note(failed=False)
        return fit

    def _need_not_wait(self, line: Line, transcript: Transcript, asked: Controls) -> bool:
        return not asked.recall and line.size.fits(transcript.messages, asked.budget)

    def _refusal(self, asked: Controls) -> str:
        """Why the service is not to be asked, if it is not."""
        if asked.token is None and not self._own_token:
            return "token_missing"
        return "paused" if self._pause.on else ""

    async def _fit(
        self,
        session: str,
        name: str,
        line: Line,
        body: Mapping[str, Any],
        transcript: Transcript,
        asked: Controls,
    ) -> Fitted:
        model = body.get("model")

        async def render(budget: int | None) -> Json:
            return await self.client.render(
                session,
                transcript.messages,
                budget=budget,
                policy=asked.policy,
                model=model if isinstance(model, str) else None,
                want="plan",
                token=asked.token,
                line=name,
            )

        reply = await render(asked.budget)
        line.branch, line.turn = reply["branch"], reply["turn"]
        tokens = reply["tokens"]["before"] + reply["tokens"]["outside"]
        count = len(transcript.messages)
        # One over the budget will not fit again: whether it is the same need not be known.
        over = tokens > max(reply["budget"], asked.budget or 0)
        now = b"" if over else fingerprints(transcript.messages, count)[0]
        line.size = Size(count, now, tokens, reply["budget"])
        kept = _still_recalled(line, transcript)
        missing = [result for result in kept if result in reply["omitted"]]
        if not missing:
            return fitted(body, transcript, reply)
        found = await self.client.recall(
            session, results=missing, branch=line.branch, token=asked.token
        )
        room = reply["budget"] - sum(result["tokens"] for result in found["results"])
        if room > 0:
            reply = await render(room)
        return fitted(body, transcript, reply, also=missing)

    def _line(self, key: Hashable, transcript: Transcript) -> Line:
        """The history's line, and its first system prompt in place of what came now."""
        line = self._lines.setdefault(key, Line())
        self._lines.move_to_end(key)
        while len(self._lines) > REMEMBERED:
            self._lines.popitem(last=False)
        system = _leading_system(transcript)
        if len(system) != len(line.system):
            line.system = system
        transcript.messages[: len(system)] = line.system
        return line


def remember_recalled(call: Call, results: list[int]) -> None:
    """These results stay in view for some calls."""
    if call.fit.transcript is None:
        return
    for result in results:
        call_id = call.fit.transcript.messages[result]["tool_call_id"]
        call.line.recalled[(result, call_id)] = call.line.turn + KEPT_TURNS


def _still_recalled(line: Line, transcript: Transcript) -> list[int]:
    """The results to be shown whatever the plan says; forgets those whose time is over."""
    messages = transcript.messages
    line.recalled = {
        (result, call_id): last
        for (result, call_id), last in line.recalled.items()
        if last >= line.turn
        and result < len(messages)
        and messages[result].get("tool_call_id") == call_id
    }
    return sorted(result for result, _ in line.recalled)


def _media_tokens(message: Json) -> int:
    """More than its media cost; their canonical form is short."""
    content = message.get("content")
    if not isinstance(content, list):
        return 0
    return MEDIA_TOKENS * sum("digest" in part for part in content if isinstance(part, dict))


def _is_outage(failure: Exception) -> bool:
    """Whether others of the service's answers would fail, too."""
    return isinstance(failure, (TimeoutError, asyncio.TimeoutError, Unreachable))


def _leading_system(transcript: Transcript) -> list[Json]:
    system = []
    for message in transcript.messages:
        if message["role"] not in ("system", "developer"):
            break
        system.append(message)
    return system


def _is_kept_elsewhere(body: Mapping[str, Any]) -> bool:
    """Whether the provider holds the history, and the request only its newest part."""
    return bool(body.get("previous_response_id") or body.get("conversation"))
