"""glibc's allocator, asked in a process of its own."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from contextrender_bridge.server.process.machine import WORTH_BYTES, Thrift

COUNT = """
import ctypes, sys, threading
from contextrender_bridge.server.process.machine import keep_little
if sys.argv[1] == "few":
    keep_little()
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
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")


def test_threads_share_two_arenas(tmp_path: Path) -> None:
    def arenas(how: str) -> int:
        told = tmp_path / how
        subprocess.run([sys.executable, "-c", COUNT, how, str(told)], check=True, timeout=120)
        return told.read_text().count("<heap nr=")

    assert arenas("few") <= 2 < arenas("many")


def test_memory_is_given_back_each_time_it_has_grown_by_much() -> None:
    held, given = 100 * 2**20, list[int]()

    def give_back() -> None:
        nonlocal held
        given.append(held)
        held = 110 * 2**20

    thrift = Thrift(lambda: held, give_back)
    thrift.look()
    held += WORTH_BYTES - 1
    thrift.look()
    assert not given
    held += 1
    thrift.look()
    thrift.look()
    assert given == [100 * 2**20 + WORTH_BYTES]
    held = 90 * 2**20
    thrift.look()
    held += WORTH_BYTES
    thrift.look()
    assert len(given) == 2
