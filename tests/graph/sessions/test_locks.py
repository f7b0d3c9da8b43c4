"""One writer a session, whoever else in this process shares the folder, or no longer does."""

import subprocess
import sys
from pathlib import Path

from contextrender_bridge.sessions.locks import SessionLocks

HOLD_IT = """
import sys
from pathlib import Path
from contextrender_bridge.base.errors import Busy
from contextrender_bridge.sessions.locks import SessionLocks
try:
    with SessionLocks.shared(Path(sys.argv[1])).hold("owner", "session", patience=0):
        print("held")
except Busy:
    print("busy")
"""


def seen_elsewhere(folder: Path) -> str:
    """What another process finds that wants the session."""
    found = subprocess.run(
        [sys.executable, "-c", HOLD_IT, str(folder)], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def test_a_folder_is_locked_until_the_last_who_shares_it_leaves(tmp_path: Path) -> None:
    first, second = SessionLocks.shared(tmp_path), SessionLocks.shared(tmp_path)
    assert first is second
    second.unshare()
    with first.hold("owner", "session"):
        assert seen_elsewhere(tmp_path) == "busy"
    assert seen_elsewhere(tmp_path) == "held"
    first.unshare()
    assert SessionLocks.shared(tmp_path) is not first
