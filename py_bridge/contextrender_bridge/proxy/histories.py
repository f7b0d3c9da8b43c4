"""The histories that pass through: each model call's request, made to fit by the service."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.async_client import AsyncContextRender
from contextrender_bridge.dialects import Transcript
from contextrender_bridge.fitting import Failures, Fitted, dialect_of, fitted, reason_of
from contextrender_bridge.proxy.controls import Controls, line_of, session_of
from contextrender_bridge.proxy.headers import Headers

Json = dict[str, Any]

REMEMBERED = 1024
KEPT_TURNS = 4
"""For how many model calls a recalled result is shown whatever the plan says."""


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


@dataclass(frozen=True)
class Call:
    """One model call: its session, what is sent on, and the history it belongs to."""

    session: str
    fit: Fitted
    line: Line
    token: str | None = field(default=None, repr=False)


class Histories:
    """Asks the service what to show; safe for any number of calls at a time."""

    def __init__(self, client: AsyncContextRender, deadline: float, *, own_token: bool) -> None:
        """`own_token`: callers that bring no token are served with the client's."""
        self.client = client
        self.failures = Failures()
        self._deadline = deadline
        self._own_token = own_token
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
            if asked.token is None and not self._own_token:
                raise PermissionError
            name = line_of(transcript.messages)
            line = self._line((asked.token, session, name), transcript)
            work = self._fit(session, name, line, body, transcript, asked)
            fit = await asyncio.wait_for(work, self._deadline)
        except PermissionError:
            self.failures.add("token_missing")
            fit = Fitted(body, failure="token_missing")
        except Exception as failure:
            self.failures.add(reason_of(failure))
            fit = Fitted(body, failure=reason_of(failure))
        return Call(session, fit, line, asked.token)

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
