"""A proxy that was started before the service ever was: it waits for the service's first start.

That one compiles the Jac runtime and makes the token. Later the proxy needs no service to start:
while none answers, histories go through whole.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.client.credentials import FILE_NAME

if TYPE_CHECKING:
    from contextrender_bridge.own_hosts import App

SECONDS = 300.0
LOOK_SECONDS = 0.2


def once_started(make: Callable[[], App], sleep: Callable[[float], object] = time.sleep) -> App:
    """The app, once there are credentials. Raises CommandError where none will come."""
    may_come = not current_settings().url and not (data_dir() / FILE_NAME).exists()
    try:
        return make()
    except NoCredentials as missing:
        reason = str(missing)
    if not may_come:
        raise CommandError(reason)
    print(f"contextrender: {reason} Waiting for it ...", file=sys.stderr, flush=True)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        sleep(LOOK_SECONDS)
        with suppress(NoCredentials):
            return make()
    raise CommandError(reason)
