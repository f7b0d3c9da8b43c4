"""What a walker asks of the server that it runs in: links that the server will know again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


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
