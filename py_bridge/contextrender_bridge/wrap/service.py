"""The service that all wrapped agents of a user share: the one that runs, or one started now."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.settings import read_settings
from contextrender_bridge.client.credentials import Credentials, load_credentials
from contextrender_bridge.local_service import STARTING, answers, begun, ready, telling

LOG = "wrap-service.log"


def find_service(data: Path, say: Callable[[str], None]) -> Credentials:
    """The service that the environment names, that runs over `data`, or that is started now.

    Raises CommandError.
    """
    try:
        known = load_credentials(data)
    except NoCredentials:
        known = None
    if known is not None and answers(known.url):
        return known
    if named := read_settings().url:
        raise CommandError(
            f"no service answers at {named}: start it, or unset CONTEXTRENDER_URL, and wrap "
            "starts one here."
        )
    if importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"no service is running, and to start one needs {how_to_serve()}.")
    with _alone(data / ".starting", say):
        with suppress(NoCredentials):
            known = load_credentials(data)
            if answers(known.url):  # another wrap has just started it
                return known
        with telling("starting the service", STARTING, say, first=0.0):
            log = data / LOG
            linger = str(read_settings().linger)
            ready(begun(data, log, "--while-used", linger, cwd=data), data, log)
            return load_credentials(data)


@contextmanager
def _alone(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One process at a time; a killed one's lock ends with it."""
    import fcntl

    with lock.open("w") as file:
        with telling("waiting for the service that another wrap starts", STARTING, say, first=1.0):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
