"""Puts the repository root on the path, so that tests import the sources beside them."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import hypothesis
import pytest
from contextrender_bridge import Credentials, load_credentials
from contextrender_bridge.base import settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from tests.server.servers import Server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright keeps an event loop running in the thread that started it."""
    items.sort(key=lambda item: "console" in item.path.parts)


@pytest.fixture(scope="session")
def everyones(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Server"]:
    """A service in a process of its own, for every test that needs nothing special of it."""
    from tests.server.servers import served

    with served(tmp_path_factory.mktemp("service") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of an empty database in a PostgreSQL of the tests' own."""
    from tests.support.postgres import Cluster, missing

    if (reason := missing()) is not None:
        pytest.skip(reason)
    with Cluster.running() as cluster:
        yield cluster.address


@pytest.fixture(scope="session")
def credentials(everyones: "Server") -> Credentials:
    return load_credentials(everyones.data)


# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

# Started in a shell's background, we ignore SIGINT, and whatever we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A process reads its settings once; tests change the environment. A user's own file stays out.
os.environ["CONTEXTRENDER_CONFIG"] = os.devnull
# In memory, where there is room: tests would wait for the disk half of the time.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir():
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize > 4 * 2**30 and not room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
# Several test processes at once: each's services would choose the same processor.
os.environ["CONTEXTRENDER_PIN_CPU"] = "off"
settings._read_once = settings.read_settings  # type: ignore[assignment]
# Each client would read the machine's certificates anew, which takes longer than many a test.
httpx._transports.default.create_ssl_context = lru_cache(httpx.create_ssl_context)  # type: ignore[attr-defined]


LONGEST_SECONDS = int(os.environ.get("LONGEST_TEST_SECONDS", "420"))
"""A test that waits for longer waits for nothing: it fails, and the others go on."""


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError(f"the test took longer than {LONGEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    # Again and again: what is torn down may hang too.
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS, LONGEST_SECONDS / 10)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
