"""`embedded()` in programs that have packages with the app's names, are killed, or pass an invalid
folder.
"""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import embedded
from contextrender_bridge.base.errors import CommandError

from tests.support.waiting import wait_until

pytestmark = pytest.mark.release
PACKAGES = ("engine", "evaluation", "graph", "nodes", "views", "walkers")
SCRIPT = """
import importlib, sys
from pathlib import Path

PACKAGES = {packages!r}

def import_own():
    for name in PACKAGES:
        assert importlib.import_module(name).WHOSE == "the host's", name
        assert importlib.import_module(name + ".history").WHOSE == "the host's", name

if sys.argv[1] == "before":
    import_own()

from contextrender_bridge import embedded

text = "The report_ID is A-1234-77. " + "More of it follows here. " * 400
messages = [{{"role": "user", "content": "Read every report."}}]
for number in range(4):
    function = {{"name": "read", "arguments": "{{}}"}}
    call = {{"id": str(number), "type": "function", "function": function}}
    messages += [
        {{"role": "assistant", "content": None, "tool_calls": [call]}},
        {{"role": "tool", "tool_call_id": str(number), "content": text}},
    ]
messages.append({{"role": "assistant", "content": "It is A-1234-77."}})

with embedded(Path(sys.argv[2])) as service, service.client() as client:
    rendered = client.render("run", messages, budget=5000)
    assert rendered["omitted"], rendered
    explained = client.explain("run")
    assert len(explained["results"]) == 4
    assert client.recall("run", query="A-1234-77")
    if sys.argv[1] == "amid":
        import_own()
    client.sync("run", [*messages, {{"role": "user", "content": "And now?"}}])
import_own()
assert [path for path in sys.path if (Path(path) / "contextrender.jac").exists()] == []
assert not {{"jaclang", "contextrender_bridge.engine"}} & set(sys.modules)
print("done")
"""


def run_host(folder: Path, when: str) -> Path:
    """Run the host program, which imports its packages `before`, `amid` or `after`; return its data
    folder."""
    for name in PACKAGES:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file in ("__init__.py", "history.py"):
            (folder / name / file).write_text('WHOSE = "the host\'s"\n')
    script = folder / "host.py"
    script.write_text(SCRIPT.format(packages=PACKAGES))
    data = folder / f"data-{when}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(script), when, str(data)]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("done\n")
    return data


@pytest.mark.parametrize("when", ["before", "amid", "after"])
def test_host_program_keeps_its_own_packages(when: str, tmp_path: Path) -> None:
    data = run_host(tmp_path, when)

    # The app finds the stored types under their usual names.
    with embedded(data) as service, service.client() as client:
        assert client.inspect_session("run")["uses"] == 1
        assert client.export_session("run")["branches"][0]["messages"][-1]["content"] == "And now?"


DYING = """
import os, sys
from pathlib import Path
from contextrender_bridge import embedded

with embedded(Path(sys.argv[1])) as service:
    print(service.url, service.token, flush=True)
    sys.stdin.read()
"""


def test_embedded_server_ends_with_program_and_hides_token(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DYING, str(tmp_path / "data")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as host:
        assert host.stdout
        url, token = host.stdout.readline().split()
        assert httpx.get(f"{url}/healthz").is_success
        assert httpx.post(f"{url}/walker/list_sessions", json={}).status_code == 401
        arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
        assert not [line for line in arguments if token.encode() in line]
        assert not [
            path
            for path in (tmp_path / "data").iterdir()
            if path.is_file() and token.encode() in path.read_bytes()
        ]
        host.kill()

    def has_ended() -> bool:
        try:
            return not httpx.get(f"{url}/healthz", timeout=1).is_success
        except httpx.TransportError:
            return True

    wait_until(has_ended, seconds=30)


def test_embedded_server_explains_failed_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(CommandError, match="is a file: name another"), embedded(file):
        pass
