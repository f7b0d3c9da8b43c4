"""Which database: a file in the data folder, or the one that `CONTEXTRENDER_DATABASE` names."""

from collections.abc import Callable
from pathlib import Path

from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import make_private
from contextrender_bridge.settings import read_settings

from graph.runtime.carry_over import OLD_GRAPH, carry_over
from graph.runtime.locks import starting
from graph.runtime.sqlite import FILE, SqliteStore
from graph.runtime.store import Store, TooNew


def open_store(data: Path) -> Store:
    """The store of a data folder, or that of the settings; what is older is carried over.

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
        from graph.runtime.postgres import PostgresStore

        return _known(lambda: PostgresStore(name, read_settings()))
    if kind != "sqlite" or not place:
        raise CommandError(f"{kind!r} is no store: use sqlite:DIR or postgresql://...")
    folder = Path(place).expanduser()
    if new:
        folder = make_private(folder)
    elif not any((folder / file).is_file() for file in (FILE, OLD_GRAPH)):
        raise CommandError(f"there is no store in {folder}.")
    return _known(lambda: _open_file(folder))


def open_there(data: Path) -> Store:
    """As `open_store`, but nothing is made where nothing is. Raises CommandError."""
    return open_named(read_settings().database or f"sqlite:{data}", new=False)


def _open_file(folder: Path) -> Store:
    with starting(folder):
        carry_over(folder, folder / FILE)
        return SqliteStore(folder / FILE)


def _known(opened: Callable[[], Store]) -> Store:
    try:
        return opened()
    except TooNew as refusal:
        raise CommandError(str(refusal)) from None
