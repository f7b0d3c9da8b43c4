"""Put the repository root on the path, so that tests import the repository's sources."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import httpx
import hypothesis
import pytest
from contextrender_bridge import Credentials, load_credentials
from contextrender_bridge.base import settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from tests.server.servers import Server


LONGEST_FILES = ("test_killed_agent.py", "test_memory.py")
"""Files that take over a minute. They run first, so that test processes end at the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, and browser tests last.

    Playwright keeps an event loop running in its thread.
    """
    items.sort(key=lambda item: ("console" in item.path.parts, item.path.name not in LONGEST_FILES))


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Server"]:
    """Start a service in its own process, which tests without special needs share."""
    from tests.server.servers import forked_server

    with forked_server(tmp_path_factory.mktemp("service") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a PostgreSQL for the tests; yield the address of an empty database."""
    from tests.support.postgres import Cluster, find_missing_part

    if (reason := find_missing_part()) is not None:
        pytest.skip(reason)
    with Cluster.running() as cluster:
        yield cluster.address


@pytest.fixture(scope="session")
def credentials(shared_server: "Server") -> Credentials:
    return load_credentials(shared_server.data)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder the home of this user, whose agents are where they are by default."""
    agents = ("XDG_", "CLAUDE_", "CODEX_", "HERMES_", "OPENCLAW_", "PI_")
    for name in [name for name in os.environ if name.startswith(agents)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


# The duration of an example depends on how busy the machine is.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

# A process in a shell's background ignores SIGINT, and its child processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A process reads its settings once, but tests change the environment. The user's file is ignored.
os.environ["CONTEXTRENDER_CONFIG"] = os.devnull
# Use memory if there is room, because tests would wait for the disk half of the time.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir():
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize > 4 * 2**30 and not room.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
# The services of parallel test processes would choose the same processor.
os.environ["CONTEXTRENDER_PIN_CPU"] = "off"
settings._read_once = settings.read_settings  # type: ignore[assignment]
# A hash of a password takes as long as many tests.
bcrypt.gensalt = partial(bcrypt.gensalt, 4)
# Each client would read the machine's certificates again, which takes longer than many tests.
httpx._transports.default.create_ssl_context = lru_cache(httpx.create_ssl_context)  # type: ignore[attr-defined]


LONGEST_SECONDS = int(os.environ.get("LONGEST_TEST_SECONDS", "420"))
"""Seconds after which a hanging test fails."""


@pytest.fixture(autouse=True)
def limit_time() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError(f"the test took longer than {LONGEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    # Repeat the alarm, because teardown may hang, too.
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS, LONGEST_SECONDS / 10)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
