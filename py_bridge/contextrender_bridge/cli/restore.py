"""Restore a backup into an empty data folder, or into the empty database that is set."""

import argparse
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.settings import current_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender restore`."""
    parser.add_argument(
        "source", type=Path, metavar="SRC", help="a folder that `contextrender backup` wrote"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"the server's ({data_dir()})")


def run(args: argparse.Namespace) -> int:
    """Restores it, all or nothing, and says what there is now."""
    import contextrender_bridge.server  # noqa: F401  (the app's own packages)
    from graph.store.backup import is_empty, restore
    from graph.store.opening import open_named

    data = args.data or data_dir()
    database = current_settings().database
    store = open_named(database, new=True) if database else None
    try:
        if store is not None and not is_empty(store):
            raise CommandError(
                f"{store.place} is not empty: name an empty database, or keep what is there."
            )
        held = restore(args.source, data, store)
    finally:
        if store is not None:
            store.close()
    print(f"Restored {held['nodes']} nodes and {held['users']} users to {data}.")
    return 0
