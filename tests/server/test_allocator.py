"""glibc's allocator, asked in a process of its own."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

COUNT = """
import ctypes, sys, threading
from contextrender_bridge.server.allocator import keep_few_arenas
if sys.argv[1] == "few":
    keep_few_arenas()
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
met = threading.Barrier(12)
def work():
    met.wait()
    libc.malloc(100_000)
    met.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


FREED = """
import pathlib, re
from contextrender_bridge.server.allocator import give_back
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
held = [bytes(3000) for _ in range(20_000)]
last = bytes(3000)
held.clear()
before = resident()
give_back()
print(before - resident())
"""
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")


def test_what_is_free_is_the_systems_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREED], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) > 40_000  # of 60,000 kB


def test_threads_share_two_arenas(tmp_path: Path) -> None:
    def arenas(how: str) -> int:
        told = tmp_path / how
        subprocess.run([sys.executable, "-c", COUNT, how, str(told)], check=True, timeout=120)
        return told.read_text().count("<heap nr=")

    assert arenas("few") <= 2 < arenas("many")
