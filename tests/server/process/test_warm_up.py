"""What takes seconds to import is there before a server listens, not within a request."""

import os
import subprocess
import sys

import pytest

LOADED = """
import contextrender_bridge.server
from contextrender_bridge.server.process.loading import warm_up
warm_up()
import sys
print(*sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("EMBED_MODEL", {"litellm"}),
        ("MODEL", {"litellm", "byllm.lib", "engine.models.compaction"}),
    ],
)
def test_a_providers_library_is_loaded_at_the_start(setting: str, wanted: set[str]) -> None:
    environment = {**os.environ, f"CONTEXTRENDER_{setting}": "openai/scripted"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert wanted <= set(done.stdout.split())
