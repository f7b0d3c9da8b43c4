"""`contextrender migrate`: a store of an older layout, one of a later version, none."""

import sqlite3
import subprocess
import tarfile
from contextlib import closing
from pathlib import Path

from tests.server.servers import BIN, REPOSITORY

OLD = REPOSITORY / "tests" / "graph" / "runtime" / "layout-1.tgz"


def migrate(data: Path) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "contextrender"), "migrate", "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True)


def test_an_older_folder_is_brought_up_to_date_and_a_later_one_refused(tmp_path: Path) -> None:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    data = next(path.parent for path in tmp_path.rglob("graph.db"))
    done = migrate(data)
    assert (done.returncode, done.stdout) == (
        0,
        f"{data / 'store.db'} has the layout of this version.\n",
    )
    with closing(sqlite3.connect(data / "store.db")) as store, store:
        assert store.execute("SELECT count(*) FROM nodes").fetchone()[0] > 0
        store.execute("UPDATE meta SET value = '99' WHERE name = 'layout'")
    refused = migrate(data)
    assert refused.returncode == 1
    assert refused.stderr.startswith("contextrender: ") and "layout 99" in refused.stderr


def test_a_folder_that_is_a_file_is_said_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    refused = migrate(file)
    assert refused.returncode != 0 and "Traceback" not in refused.stderr
