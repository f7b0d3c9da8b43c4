"""A store as a folder, taken while it is in use, and the way back.

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
from contextrender_bridge.store.sqlite_file import make_file

BESIDE: Final = ("jwt_secret", "audit.log")
HELD: Final = {"nodes": "nodes", "identity_users": "users"}
"""The tables that are counted, and what is in them."""


def back_up(store: Store, data: Path, target: Path) -> dict[str, int]:
    """Everything committed by now, into a new or empty folder; nobody waits for it.

    How many nodes and users there are. Raises CommandError and StoreUnavailable.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} is there already: name a folder that is new or empty.")
    part = make_private(target) / f"{FILE}.part"
    make_file(part)
    if isinstance(store, SqliteStore):
        store.copy_to(part)
        _check(part)
    else:
        _copy_snapshot(store, part)
    for name in BESIDE:
        if (data / name).exists():
            shutil.copy2(data / name, target / name)
    part.rename(target / FILE)
    return _held(target / FILE)


def restore(source: Path, data: Path, store: Store | None = None) -> dict[str, int]:
    """A backup, checked, into a data folder without a store, or into `store` if that is empty.

    How many nodes and users there are. Raises CommandError.
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
            _check(part)
            _settle(part, store)
        except BaseException:
            _clear(part)
            raise
        for name in BESIDE:
            if (source / name).exists() and not (data / name).exists():
                shutil.copy2(source / name, data / name)
        if store is not None:
            counts = _held(part)
            _clear(part)
            return counts
        part.rename(data / FILE)
    return _held(data / FILE)


def is_empty(store: Store) -> bool:
    """Whether there is neither a node nor a user in it."""
    return not any(store.read(f"SELECT 1 FROM {table} LIMIT 1") for table in HELD)


def _settle(part: Path, store: Store | None) -> None:
    """Opens a restored file, and brings it into the store that it is for."""
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
    """From PostgreSQL: rows as they are at one moment."""
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
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as held,
        closing(sqlite3.connect(target)) as copy,
    ):
        try:
            held.backup(copy)
        except sqlite3.Error as damage:
            raise CommandError(f"{source} cannot be read: {damage}.") from None


def _check(file: Path) -> None:
    """Raises CommandError where pages are damaged or it is no store of ours."""
    with closing(sqlite3.connect(file)) as copy:
        try:
            (said,) = copy.execute("PRAGMA quick_check(1)").fetchone()
            copy.execute("SELECT value FROM meta WHERE name = 'layout'").fetchone()
        except sqlite3.Error as damage:
            said = str(damage)
    if said != "ok":
        raise CommandError(f"the copy is not whole: {said}.")


def _held(file: Path) -> dict[str, int]:
    with closing(sqlite3.connect(file)) as copy:
        counts = [copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in HELD]
    return dict(zip(HELD.values(), counts, strict=True))


def _clear(part: Path) -> None:
    """Removes what another attempt left."""
    for name in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
        name.unlink(missing_ok=True)
