"""Memory of `wrap` after a large model call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.servers import BIN
from tests.support.process_memory import check_release_after_calls
from tests.support.scripted_model import Model, serving
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say"),
]
AGENT = """
import os, pathlib, sys, time
path = pathlib.Path(sys.argv[1])
path.with_suffix(".new").write_text(os.environ["OPENAI_BASE_URL"])
path.with_suffix(".new").rename(path)
time.sleep(600)
"""
"""An agent that writes its provider's address to a file, so that the test can make its calls."""


def test_memory_of_large_body_is_released_by_wrap(tmp_path: Path) -> None:
    model, address_file = Model(), tmp_path / "address"
    with serving(model, lifespan="off") as provider:
        environment = {
            **os.environ,
            "CONTEXTRENDER_DATA": str(tmp_path / "data"),
            "CONTEXTRENDER_IDLE_TIMEOUT": "2",
            "OPENAI_BASE_URL": f"{provider}/v1",
        }
        command: list[str | Path] = [BIN / "contextrender", "wrap", "--observe"]
        command += ["--base-url-env", "OPENAI_BASE_URL", "--", sys.executable, "-c", AGENT]
        process = subprocess.Popen([*command, address_file], env=environment)
        try:
            wait_until(address_file.exists, alive=lambda: process.poll() is None)
            check_release_after_calls(process.pid, address_file.read_text())
        finally:
            process.terminate()
            process.wait()
