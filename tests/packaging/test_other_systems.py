"""Without features that only Linux has, everything imports and the service starts."""

import subprocess
import sys
from pathlib import Path

import pytest

TAKEN_AWAY = """
import importlib, os, pkgutil, signal, socket, sys
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.runtime import load_app
load_app(app_dir())
from contextrender_bridge.server.process.loading import warm_up
warm_up()
import litellm, mcp, psycopg, asyncio.unix_events, subprocess, multiprocessing.util
ours = ("contextrender_bridge", "graph")
for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
    del sys.modules[name]
system = sys.argv[1]
if system == "windows":
    for name in ("fcntl", "grp", "pwd", "pty", "resource", "termios"):
        sys.modules[name] = None
    for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGKILL", "SIGSTOP"):
        delattr(signal, name)
    for name in ("fork", "geteuid", "getuid", "set_blocking"):
        delattr(os, name)
for name in ("sched_getaffinity", "sched_setaffinity"):
    delattr(os, name)
delattr(socket, "AF_NETLINK")
"""
IMPORTED = """
for name in ours:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not found.name.startswith("contextrender_bridge.adapters."):
            importlib.import_module(found.name)
print("imported")
"""
SERVED = """
from contextrender_bridge.cli import main
from contextrender_bridge.proxy.peers import is_same_user
from contextrender_bridge.process_memory import return_free_memory, limit_free_memory
limit_free_memory(), return_free_memory()
assert not is_same_user({"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)})
assert main(["user", "list", "--data", sys.argv[2]]) == 0
for words in (["wrap", "--base-url-env", "OPENAI_BASE_URL", "--", "sh"],
              ["serve", "--workers", "2", "--data", sys.argv[2]]):
    assert system != "windows" or main(words) == 1
print("served")
"""


@pytest.mark.release
@pytest.mark.parametrize("system", ["macos", "windows"])
@pytest.mark.parametrize(("then", "output"), [(IMPORTED, "imported"), (SERVED, "served")])
def test_package_works_without_linux_features(
    system: str, then: str, output: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", TAKEN_AWAY + then, system, str(tmp_path / "data")]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.stdout.endswith(f"{output}\n"), process.stderr
    if system == "windows" and output == "served":
        assert process.stderr.count("run it in WSL") == 2
