"""One writer per session, also when a folder's locks are shared in the process."""

import subprocess
import sys
from pathlib import Path

import pytest
from contextrender_bridge.base.errors import Busy
from contextrender_bridge.runtime.session_lease import SessionLocks

HOLD_IT = """
import sys
from pathlib import Path
from contextrender_bridge.base.errors import Busy
from contextrender_bridge.runtime.session_lease import SessionLocks
try:
    with SessionLocks.shared(Path(sys.argv[1])).hold("owner", "session", patience=0):
        print("held")
except Busy:
    print("busy")
"""


def lock_in_other_process(folder: Path) -> str:
    """Try to lock the session in another process; return its result."""
    process = subprocess.run(
        [sys.executable, "-c", HOLD_IT, str(folder)], capture_output=True, text=True, check=True
    )
    return process.stdout.strip()


def test_shared_locks_work_until_last_user_leaves(tmp_path: Path) -> None:
    first, second = SessionLocks.shared(tmp_path), SessionLocks.shared(tmp_path)
    assert first is second
    second.unshare()
    with first.hold("owner", "session"):
        assert lock_in_other_process(tmp_path) == "busy"
    assert lock_in_other_process(tmp_path) == "held"
    first.unshare()
    assert SessionLocks.shared(tmp_path) is not first


def test_session_is_locked_against_threads_of_the_process() -> None:
    locks = SessionLocks()
    for _ in range(2):  # A lock that was released can be used again.
        with (
            locks.hold("owner", "session"),
            locks.hold("owner", "other"),
            pytest.raises(Busy),
            locks.hold("owner", "session", patience=0),
        ):
            pass
