"""Which database: a file in the data folder, or the one that `CONTEXTRENDER_DATABASE` names."""

from pathlib import Path
from typing import Final

from contextrender_bridge.errors import CommandError
from contextrender_bridge.settings import read_settings

from graph.runtime.carry_over import carry_over
from graph.runtime.locks import starting
from graph.runtime.sqlite import SqliteStore
from graph.runtime.store import Store, TooNew

FILE: Final = "store.db"


def open_store(data: Path) -> Store:
    """The store of a data folder, or that of the settings; what is older is carried over.

    Raises CommandError with a sentence for whoever runs the server.
    """
    try:
        settings = read_settings()
        if settings.database:
            from graph.runtime.postgres import PostgresStore

            return PostgresStore(settings.database, settings)
        with starting(data):
            carry_over(data, data / FILE)
            return SqliteStore(data / FILE)
    except TooNew as refusal:
        raise CommandError(str(refusal)) from None
