"""Opening of a store: the database in the settings, or by default the file in the data folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import make_private
from contextrender_bridge.base.settings import read_settings
from contextrender_bridge.store.base import OtherLayout, Store
from contextrender_bridge.store.sqlite import FILE, SqliteStore

try:
    import fcntl
except ImportError:  # not on Windows, where one process serves a data folder
    fcntl = None  # type: ignore[assignment]


def open_store(data: Path) -> Store:
    """Return the store that the settings name or, if they name none, the store in the folder.

    Create the store in the folder if it is missing. Raise CommandError if the database in the
    settings is unknown or missing, or the store has the layout of another version.
    """
    if database := read_settings().database:
        return open_named(database, new=False)
    return _open_file(data)


def open_named(name: str, *, new: bool) -> Store:
    """Return the store with the name `sqlite:DIR` or `postgresql://...`.

    Create a missing file only if `new` is True. Create missing tables in any empty database. Raise
    CommandError if the name is unknown, the file is missing, or the store has the layout of another
    version.
    """
    # Import PostgreSQL's driver only if it is used.
    kind, _, path = name.partition(":")
    if kind in ("postgresql", "postgres"):
        from contextrender_bridge.store.postgres import PostgresStore

        with _layout_error_for_operator():
            return PostgresStore(name, read_settings())
    if kind != "sqlite" or not path:
        raise CommandError(f"{kind!r} is no store: use sqlite:DIR or postgresql://...")
    # SQLite would create a missing file, so check the folder first.
    folder = Path(path).expanduser()
    if new:
        folder = make_private(folder)
    elif not (folder / FILE).is_file():
        raise CommandError(f"there is no store in {folder}.")
    return _open_file(folder)


def open_existing(data: Path) -> Store:
    """Return the same store as `open_store`. Raise CommandError if its file is missing."""
    return open_named(read_settings().database or f"sqlite:{data}", new=False)


def check_store_exists(data: Path) -> None:
    """Raise CommandError if no database is set and the data folder has no store."""
    if not read_settings().database and not (data / FILE).is_file():
        raise CommandError(f"there is no store in {data}.")


@contextmanager
def start_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's start lock for the block: only one process at a time opens the store."""
    with (folder / "start.lock").open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _open_file(folder: Path) -> Store:
    """Open the SQLite store in a folder, or create it. Only one process at a time does so.

    Raise CommandError if something else has the file's name: to open a pipe would wait for ever.
    """
    path = folder / FILE
    if path.exists() and not path.is_file():
        raise CommandError(f"{path} is no regular file, so it cannot be the store.")
    with start_lock(folder), _layout_error_for_operator():
        return SqliteStore(path)


@contextmanager
def _layout_error_for_operator() -> Iterator[None]:
    """Raise CommandError with the same message if the block raises OtherLayout."""
    try:
        yield
    except OtherLayout as error:
        raise CommandError(str(error)) from None
