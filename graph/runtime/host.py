"""What a walker asks of its server: to answer early, and to sign links."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

Tell = Callable[[object], None]

REST_SECONDS = 0.002
"""Threads share one interpreter: meanwhile the answer is passed on, which somebody waits for."""

TELL: ContextVar[Tell | None] = ContextVar("tell", default=None)


def answer_early(report: object) -> None:
    """Answers the current request with this report, before its changes are on disk.

    For callers that keep the whole history themselves: should the write fail, or the process die,
    their next call says so (409) and brings what is missing.
    """
    tell = TELL.get()
    if tell is not None:
        tell(report)
        time.sleep(REST_SECONDS)


@dataclass(frozen=True)
class Signer:
    """Makes links of the caller's. `sign` gives the secret of one: of a session's key, the link's
    name and when it ends (seconds since 1970). `generation` is that of the caller's tokens."""

    generation: str
    sign: Callable[[str, str, int], str]


_SIGNER: ContextVar[Signer | None] = ContextVar("signer", default=None)


def signer() -> Signer | None:
    """The one of the current call; None where no server runs it."""
    return _SIGNER.get()


@contextmanager
def signing(one: Signer) -> Iterator[None]:
    """Walkers of the block ask this one."""
    token = _SIGNER.set(one)
    try:
        yield
    finally:
        _SIGNER.reset(token)
