"""Backups: a store copied into a folder while it is in use, and restored from it.

The folder is of SQLite whatever the store is: it can be opened by itself, and restored into either.
It holds what a data folder holds that cannot be made anew: `store.db`, the secret of the tokens (so
that they stay good) and the audit log.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import make_private
from contextrender_bridge.store.base import OtherLayout, Store
from contextrender_bridge.store.copying import copy_rows
from contextrender_bridge.store.opening import starting
from contextrender_bridge.store.sqlite import FILE, SqliteStore
from contextrender_bridge.store.sqlite_file import INTEGRITY_CHECK, integrity_errors, make_file

BESIDE: Final = ("jwt_secret", "audit.log")
CONTENTS: Final = {"nodes": "nodes", "identity_users": "users"}
"""The tables that are counted, and what is in them."""


def back_up(store: Store, data: Path, target: Path) -> dict[str, int]:
    """Copy everything that is committed into a new or empty folder; nobody waits for it.

    Return the numbers of nodes and users. Raise CommandError and StoreUnavailable.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} is there already: name a folder that is new or empty.")
    part = make_private(target) / f"{FILE}.part"
    make_file(part)
    try:
        if isinstance(store, SqliteStore):
            store.copy_to(part)
        else:
            _copy_snapshot(store, part)
        counts = _checked_counts(part)
    except BaseException:
        _clear(part)
        raise
    for name in BESIDE:
        if (data / name).exists():
            shutil.copy2(data / name, target / name)
    part.rename(target / FILE)
    return counts


def restore(source: Path, data: Path, store: Store | None = None) -> dict[str, int]:
    """Check a backup and copy it into a data folder without a store, or into an empty `store`.

    Return the numbers of nodes and users. Raise CommandError.
    """
    file = source / FILE
    if not file.is_file():
        raise CommandError(f"there is no backup in {source}.")
    with starting(make_private(data)):
        if (data / FILE).exists():
            raise CommandError(f"there is a store in {data} already: name an empty folder.")
        part = data / f"{FILE}.part"
        _clear(part)
        make_file(part)
        try:
            _copy_file(file, part)
            counts = _checked_counts(part)
            _settle(part, store)
        except BaseException:
            _clear(part)
            raise
        for name in BESIDE:
            if (source / name).exists() and not (data / name).exists():
                shutil.copy2(source / name, data / name)
        if store is not None:
            _clear(part)
        else:
            part.rename(data / FILE)
    return counts


def is_empty(store: Store) -> bool:
    """Return whether a store has neither a node nor a user."""
    return not any(store.read(f"SELECT 1 FROM {table} LIMIT 1") for table in CONTENTS)


def _settle(part: Path, store: Store | None) -> None:
    """Open a restored file, and copy its rows into the store that it is for, if any."""
    try:
        restored = SqliteStore(part)
    except OtherLayout as refusal:
        raise CommandError(str(refusal).replace(f"{FILE}.part", FILE)) from None
    try:
        if store is not None:
            copy_rows(restored, store, restored.read)
    finally:
        restored.close()


def _copy_snapshot(store: Store, part: Path) -> None:
    """Copy the rows of PostgreSQL as they are at one moment."""
    from contextrender_bridge.store.postgres import PostgresStore

    assert isinstance(store, PostgresStore)
    copy = SqliteStore(part)
    try:
        with store.snapshot() as read:
            copy_rows(store, copy, read)
    finally:
        copy.close()


def _copy_file(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        try:
            original.backup(copy)
        except sqlite3.Error as damage:
            raise CommandError(f"{source} cannot be read: {damage}.") from None


def _checked_counts(file: Path) -> dict[str, int]:
    """Return the numbers of nodes and users in a copy.

    Raise CommandError if a page or an index is damaged, or if it is no store of ours.
    """
    with closing(sqlite3.connect(file)) as copy:
        try:
            errors = integrity_errors(copy.execute(INTEGRITY_CHECK).fetchall())
            copy.execute("SELECT value FROM meta WHERE name = 'layout'").fetchone()
            counts = {
                contents: copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table, contents in CONTENTS.items()
            }
        except sqlite3.Error as damage:
            errors = [str(damage)]
    if errors:
        raise CommandError(f"the copy is not whole: {errors[0].removesuffix('.')}.")
    return counts


def _clear(part: Path) -> None:
    """Remove what another attempt left."""
    for name in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
        name.unlink(missing_ok=True)
