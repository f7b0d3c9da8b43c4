"""Opening of a store: the database that the settings name, or else the file in the data folder."""

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
    """Return the store that the settings name, or else the data folder's, which is created.

    Raise CommandError with a sentence for the operator.
    """
    if database := read_settings().database:
        return open_named(database, new=False)
    return _open_file(data)


def open_named(name: str, *, new: bool) -> Store:
    """Return the store of `sqlite:DIR` or `postgresql://...`.

    A file is created only if it is `new`; tables are created in any empty database. Raise
    CommandError.
    """
    kind, _, path = name.partition(":")
    if kind in ("postgresql", "postgres"):
        from contextrender_bridge.store.postgres import PostgresStore

        with _layout_error_for_operator():
            return PostgresStore(name, read_settings())
    if kind != "sqlite" or not path:
        raise CommandError(f"{kind!r} is no store: use sqlite:DIR or postgresql://...")
    folder = Path(path).expanduser()
    if new:
        folder = make_private(folder)
    elif not (folder / FILE).is_file():
        raise CommandError(f"there is no store in {folder}.")
    return _open_file(folder)


def open_existing(data: Path) -> Store:
    """Return the store that `open_store` returns. Raise CommandError instead of creating a file."""
    return open_named(read_settings().database or f"sqlite:{data}", new=False)


@contextmanager
def start_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's start lock for the block, so that one process at a time opens the store."""
    with (folder / "start.lock").open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _open_file(folder: Path) -> Store:
    with start_lock(folder), _layout_error_for_operator():
        return SqliteStore(folder / FILE)


@contextmanager
def _layout_error_for_operator() -> Iterator[None]:
    """Raise CommandError with the sentence of an OtherLayout that the block raises."""
    try:
        yield
    except OtherLayout as error:
        raise CommandError(str(error)) from None
