"""Start the service for an agent, with a lease that keeps it running as long as the agent runs.

A plugin runs this module when a session starts and when the service does not answer. The lease is
named after the agent's process, so no other process needs to run beside the agent.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.paths import make_private
from contextrender_bridge.leases import FOLDER, started_at
from contextrender_bridge.local_service import find_service
from contextrender_bridge.plugins.options import PluginOptions

SERVICE_VARIABLES = ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN")
"""Variables that would select another service than the data folder's."""


def main(words: Sequence[str]) -> None:
    """Start the service of the data folder `words[0]` for an agent, if it is not running.

    Create a lease for the agent's process, so that the service runs as long as the agent. The
    process has the id `words[1]`, or is this process's parent if there is no `words[1]`. Exit with
    code 1 and a message if the service cannot be started.
    """
    data = Path(words[0])
    agent = int(words[1]) if len(words) > 1 else os.getppid()
    # Use the data folder's service, also if the agent's environment names another one.
    for name in SERVICE_VARIABLES:
        os.environ.pop(name, None)
    os.environ["CONTEXTRENDER_DATA"] = str(data)
    try:
        folder = make_private(data)
        # Process ids are reused, so the name also has the time at which the process began.
        lease = folder / FOLDER / f"{agent}-{started_at(agent)}"
        lease.mkdir(parents=True, exist_ok=True, mode=0o700)
        find_service(folder, lambda _: None)
    except (CommandError, ContextRenderError, OSError) as error:
        print(f"contextrender: {error}", file=sys.stderr)
        sys.exit(1)


def start_in_background(data: Path) -> None:
    """Start the data folder's service in another process, and do not wait for it.

    The service runs as long as the parent of this process, which is the agent.
    """
    subprocess.Popen(
        [*PluginOptions(data=data).command(), str(os.getppid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
