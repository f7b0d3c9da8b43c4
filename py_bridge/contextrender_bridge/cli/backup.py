"""Back up the store while it is in use, into a new folder; `contextrender restore` reads it."""

import argparse
from contextlib import closing
from pathlib import Path

from contextrender_bridge.base.paths import data_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender backup`."""
    parser.add_argument("target", type=Path, metavar="DEST", help="a new or empty folder")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"the server's ({data_dir()})")


def run(args: argparse.Namespace) -> int:
    """Writes the folder and says what it holds."""
    import contextrender_bridge.server  # noqa: F401  (the app's own packages)
    from graph.store.backup import back_up
    from graph.store.opening import open_there

    data = args.data or data_dir()
    with closing(open_there(data)) as store:
        held = back_up(store, data, args.target)
    print(
        f"Backed up {held['nodes']} nodes and {held['users']} users to {args.target}. It is as "
        "secret as the data folder: with it go contents and the secret that signs tokens."
    )
    return 0
