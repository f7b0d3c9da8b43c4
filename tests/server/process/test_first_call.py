"""`embedded()` in a program that has only just begun: the first call waits for nothing more."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FIRST = """
import sys
from contextrender_bridge import embedded
from contextrender_bridge.server.process import loading

loading.SLOW_SECONDS = 0.0
with embedded(sys.argv[1]) as service, service.client() as client:
    before = {name.partition(".")[0] for name in sys.modules}
    messages = [{"role": "user", "content": "one two three"}]
    for number in range(9):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": ""}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"ab-{number} of it " * 50},
        ]
    found = client.fit("run", messages, budget=300, deadline=60)
    assert found.changed and not found.failure, found
    print(*sorted({"tiktoken", "wordllama", "tokenizers"} - before))
"""


def test_what_it_needs_is_loaded_when_it_opens(tmp_path: Path) -> None:
    run = [sys.executable, "-c", FIRST, str(tmp_path / "data")]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
