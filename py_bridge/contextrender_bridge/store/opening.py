"""Which database: a file in the data folder, or the one that `CONTEXTRENDER_DATABASE` names."""

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
    """The store of a data folder, or that of the settings.

    Raises CommandError with a sentence for whoever runs the server.
    """
    settings = read_settings()
    if settings.database:
        return open_named(settings.database, new=False)
    return _known(lambda: _open_file(data))


def open_named(name: str, *, new: bool) -> Store:
    """The store of `sqlite:DIR` or `postgresql://...`; one that is not there only if `new`.

    Raises CommandError.
    """
    kind, _, place = name.partition(":")
    if kind in ("postgresql", "postgres"):
        from contextrender_bridge.store.postgres import PostgresStore

        return _known(lambda: PostgresStore(name, read_settings()))
    if kind != "sqlite" or not place:
        raise CommandError(f"{kind!r} is no store: use sqlite:DIR or postgresql://...")
    folder = Path(place).expanduser()
    if new:
        folder = make_private(folder)
    elif not (folder / FILE).is_file():
        raise CommandError(f"there is no store in {folder}.")
    return _known(lambda: _open_file(folder))


def open_there(data: Path) -> Store:
    """As `open_store`, but nothing is made where nothing is. Raises CommandError."""
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


def _known(opened: Callable[[], Store]) -> Store:
    try:
        return opened()
    except OtherLayout as refusal:
        raise CommandError(str(refusal)) from None
