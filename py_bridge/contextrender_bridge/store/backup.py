"""Backups of a store that is in use, and their restoration.

A backup of either database is a SQLite file, and can be restored into either database. Its folder
has `store.db`, the audit log, and the secret that signs tokens, so that tokens stay valid.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import make_private
from contextrender_bridge.store.base import OtherLayout, Store
from contextrender_bridge.store.copying import copy_rows
from contextrender_bridge.store.opening import start_lock
from contextrender_bridge.store.sqlite import FILE, SqliteStore
from contextrender_bridge.store.sqlite_file import INTEGRITY_CHECK, integrity_errors, make_file

OTHER_FILES: Final = ("jwt_secret", "audit.log")
"""The files of a data folder that a backup has besides the store."""
COUNTED_TABLES: Final = {"nodes": "nodes", "identity_users": "users"}
"""The tables whose rows are counted, with a word for their rows."""


def back_up(store: Store, data: Path, target: Path) -> dict[str, int]:
    """Copy all committed rows into a new or empty folder, while others read and write.

    Check the copy, and also copy the `OTHER_FILES` of the data folder. Return the numbers of nodes
    and users. Raise CommandError if the folder is not empty or the copy is damaged,
    StoreUnavailable if the database fails.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} is there already: name a folder that is new or empty.")
    with _partial_file(make_private(target)) as part:
        if isinstance(store, SqliteStore):
            store.copy_to(part)
        else:
            _copy_snapshot(store, part)
        counts = _checked_counts(part)
        _copy_other_files(data, target)
        part.rename(target / FILE)
    return counts


def restore(source: Path, data: Path, store: Store | None = None) -> dict[str, int]:
    """Restore the backup in `source`: into the data folder `data`, or its rows into `store`.

    If `store` is given, it must be empty, and the data folder gets only the `OTHER_FILES`. Check a
    copy of the backup first. Return the numbers of nodes and users. Raise CommandError if there is
    no backup in `source`, the data folder has a store, or the backup is damaged or of another
    version.
    """
    file = source / FILE
    if not file.is_file():
        raise CommandError(f"there is no backup in {source}.")
    with start_lock(make_private(data)):
        if (data / FILE).exists():
            raise CommandError(f"there is a store in {data} already: name an empty folder.")
        # Work on a copy. It becomes the store only after all checks.
        with _partial_file(data) as part:
            _copy_file(file, part)
            counts = _checked_counts(part)
            _check_layout(part, copy_to=store)
            _copy_other_files(source, data)
            if store is None:
                part.rename(data / FILE)
    return counts


def is_empty(store: Store) -> bool:
    """Return whether a store has no nodes and no users."""
    return not any(store.read(f"SELECT 1 FROM {table} LIMIT 1") for table in COUNTED_TABLES)


def _check_layout(part: Path, copy_to: Store | None) -> None:
    """Open a copied file as a store, and copy its rows into `copy_to` unless that is None.

    Raise CommandError if the file has the layout of another version.
    """
    try:
        restored = SqliteStore(part)
    except OtherLayout as error:
        raise CommandError(str(error).replace(part.name, FILE)) from None
    try:
        if copy_to is not None:
            copy_rows(restored, copy_to, restored.read)
    finally:
        restored.close()


def _copy_snapshot(store: Store, part: Path) -> None:
    """Copy the rows of a PostgreSQL store, as they are at one moment, into a new SQLite file."""
    from contextrender_bridge.store.postgres import PostgresStore

    assert isinstance(store, PostgresStore)
    copy = SqliteStore(part)
    try:
        with store.snapshot() as read:
            copy_rows(store, copy, read)
    finally:
        copy.close()


def _copy_file(source: Path, target: Path) -> None:
    """Copy a SQLite database, while others may write it.

    Raise CommandError if it cannot be read.
    """
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        try:
            original.backup(copy)
        except sqlite3.Error as damage:
            raise CommandError(f"{source} cannot be read: {damage}.") from None


def _checked_counts(file: Path) -> dict[str, int]:
    """Return the numbers of nodes and users in a copied file.

    Raise CommandError if a page or an index is damaged, or if a table of a store is missing.
    """
    with closing(sqlite3.connect(file)) as copy:
        try:
            errors = integrity_errors(copy.execute(INTEGRITY_CHECK).fetchall())
            copy.execute("SELECT value FROM meta WHERE name = 'layout'")  # fails without the table
            counts = {
                unit: copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table, unit in COUNTED_TABLES.items()
            }
        except sqlite3.Error as damage:
            errors = [str(damage)]
    if errors:
        raise CommandError(f"the copy is not whole: {errors[0].removesuffix('.')}.")
    return counts


@contextmanager
def _partial_file(folder: Path) -> Iterator[Path]:
    """Yield the path of a new empty file for a copied store.

    The block renames the file when the copy is complete. Otherwise the file is deleted.
    """
    part = folder / f"{FILE}.part"
    # An earlier attempt may have been killed, and then its file is still there.
    _delete_with_logs(part)
    make_file(part)
    try:
        yield part
    finally:
        _delete_with_logs(part)


def _delete_with_logs(file: Path) -> None:
    """Delete a SQLite file and the logs beside it, if they exist."""
    for ending in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + ending).unlink(missing_ok=True)


def _copy_other_files(source: Path, target: Path) -> None:
    """Copy the `OTHER_FILES` of a data folder, except files that the target already has."""
    for name in OTHER_FILES:
        if (source / name).exists() and not (target / name).exists():
            shutil.copy2(source / name, target / name)
