"""Starts the service for an agent, and lets it run as long as the agent does.

A plugin runs it when a session starts and when the service does not answer. The lease is named by
the agent's process, so nothing has to run beside the agent.
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

ELSEWHERE = ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN")
"""Settings of a service that the data folder does not have."""


def main(words: Sequence[str]) -> None:
    """Start the service over the folder `words[0]` for the process `words[1]`, or the parent."""
    data = Path(words[0])
    agent = int(words[1]) if len(words) > 1 else os.getppid()
    for name in ELSEWHERE:
        os.environ.pop(name, None)
    os.environ["CONTEXTRENDER_DATA"] = str(data)
    try:
        folder = make_private(data)
        lease = folder / FOLDER / f"{agent}-{started_at(agent)}"
        lease.mkdir(parents=True, exist_ok=True, mode=0o700)
        find_service(folder, lambda _: None)
    except (CommandError, ContextRenderError, OSError) as error:
        print(f"contextrender: {error}", file=sys.stderr)
        sys.exit(1)


def start_in_background(data: Path) -> None:
    """Start the service over the folder for the parent of this process, and do not wait for it."""
    subprocess.Popen(
        [*PluginOptions(data=data).command(), str(os.getppid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
