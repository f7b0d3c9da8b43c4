"""The protocol between core and drivers: generators of steps, as httpx has for auth.

A flow yields what is to be done next and gets back what came of it; nothing in it is I/O. A driver
answers an `Exchange` with an `Answer`, or throws `Unreachable` into the flow, and waits for as long
as a `Wait` says.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import httpx

from contextrender_bridge.base.errors import Unreachable

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that a call may take where it has no deadline."""


@dataclass(frozen=True)
class Exchange:
    """A JSON body to POST. `seconds`: the longest it may take, None for the driver's own limit.

    `session` is for a balancer, and for a service of several processes: which has it in memory.
    """

    path: str
    body: bytes = field(repr=False)
    token: str | None = field(default=None, repr=False)
    seconds: float | None = None
    session: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The request's headers."""
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        if self.session:
            headers["x-contextrender-session"] = quote(self.session, safe="", errors="replace")
        return headers


@dataclass(frozen=True)
class Wait:
    """A pause before the next step."""

    seconds: float


class Answer(NamedTuple):
    """What an exchange ended in."""

    status: int = 0
    body: bytes = b""


Flow = Generator["Exchange | Wait", Answer, T]


def like(flow: Callable[..., Flow[Any]]) -> Callable[[C], C]:
    """Gives a client's method the name, documentation and signature of the flow it drives."""
    result = flow.__annotations__["return"].removeprefix("Flow[").removesuffix("]")

    def decorate(method: C) -> C:
        functools.update_wrapper(method, flow)
        method.__annotations__ = {**flow.__annotations__, "return": result}
        signature = inspect.signature(flow).replace(return_annotation=result)
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    return decorate


def lost(url: str, step: Exchange | Wait, error: Exception) -> Unreachable:
    """What a failure to get an answer is: `late` where it had a deadline, which has passed."""
    reason = str(error) or type(error).__name__
    late = isinstance(step, Exchange) and step.seconds is not None and _is_timeout(error)
    failure = Unreachable(f"No answer from {url}: {reason}.", code="late" if late else None)
    failure.__cause__ = error
    return failure


def _is_timeout(error: Exception) -> bool:
    # Before Python 3.11 asyncio's is a class of its own; to name it would import all of asyncio.
    late = type(error).__name__ == "TimeoutError"
    return late or isinstance(error, (TimeoutError, httpx.TimeoutException))
