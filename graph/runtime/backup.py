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

from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import make_private

from graph.runtime.carry_over import OLD_GRAPH
from graph.runtime.copying import copy_snapshot, copy_store
from graph.runtime.locks import starting
from graph.runtime.sqlite import FILE, SqliteStore, make_file
from graph.runtime.store import Store, TooNew

BESIDE: Final = ("jwt_secret", "audit.log")
HELD: Final = "SELECT (SELECT count(*) FROM nodes), (SELECT count(*) FROM identity_users)"


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

    It may be of an earlier layout. How many nodes and users there are. Raises CommandError.
    """
    file = source / FILE
    if not file.is_file():
        raise CommandError(f"there is no backup in {source}.")
    with starting(make_private(data)):
        if any((data / name).exists() for name in (FILE, OLD_GRAPH)):
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
    there = store.read("SELECT 1 FROM nodes LIMIT 1")
    return not there and not _has_users(store)


def _settle(part: Path, store: Store | None) -> None:
    """Brings a restored file up to date, and into the store that it is for."""
    try:
        restored = SqliteStore(part)
    except TooNew as refusal:
        raise CommandError(str(refusal).replace(f"{FILE}.part", FILE)) from None
    try:
        if store is not None:
            copy_store(restored, store)
    finally:
        restored.close()


def _has_users(store: Store) -> bool:
    with store.engine().connect() as connection:
        tables = connection.dialect.get_table_names(connection)
    if "identity_users" not in tables:
        return False
    return bool(store.read("SELECT 1 FROM identity_users LIMIT 1"))


def _copy_snapshot(store: Store, part: Path) -> None:
    """From PostgreSQL: rows as they are at one moment, compared by digest."""
    from graph.runtime.postgres import PostgresStore

    assert isinstance(store, PostgresStore)
    copy = SqliteStore(part)
    try:
        with store.snapshot() as held:
            copy_snapshot(held, copy)
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
        nodes, users = copy.execute(HELD).fetchone()
    return {"nodes": nodes, "users": users}


def _clear(part: Path) -> None:
    """Removes what another attempt left."""
    for name in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
        name.unlink(missing_ok=True)
