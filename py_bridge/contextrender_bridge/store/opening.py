"""Opening of a database: a file in the data folder, or the one that the settings name."""

from collections.abc import Callable, Iterator
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
    """Return the store of a data folder, or that of the settings.

    Raise CommandError with a sentence for the operator.
    """
    settings = read_settings()
    if settings.database:
        return open_named(settings.database, new=False)
    return _open_layout(lambda: _open_file(data))


def open_named(name: str, *, new: bool) -> Store:
    """Return the store of `sqlite:DIR` or `postgresql://...`; it is created only if `new`.

    Raise CommandError.
    """
    kind, _, place = name.partition(":")
    if kind in ("postgresql", "postgres"):
        from contextrender_bridge.store.postgres import PostgresStore

        return _open_layout(lambda: PostgresStore(name, read_settings()))
    if kind != "sqlite" or not place:
        raise CommandError(f"{kind!r} is no store: use sqlite:DIR or postgresql://...")
    folder = Path(place).expanduser()
    if new:
        folder = make_private(folder)
    elif not (folder / FILE).is_file():
        raise CommandError(f"there is no store in {folder}.")
    return _open_layout(lambda: _open_file(folder))


def open_existing(data: Path) -> Store:
    """Return the store as `open_store` does, but create none. Raise CommandError."""
    return open_named(read_settings().database or f"sqlite:{data}", new=False)


@contextmanager
def starting(folder: Path) -> Iterator[None]:
    """Be the only process that opens the store of this folder, for the block."""
    with (folder / "start.lock").open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _open_file(folder: Path) -> Store:
    with starting(folder):
        return SqliteStore(folder / FILE)


def _open_layout(opened: Callable[[], Store]) -> Store:
    try:
        return opened()
    except OtherLayout as refusal:
        raise CommandError(str(refusal)) from None
