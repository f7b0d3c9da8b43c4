"""Bring the store to this version's layout, as the service does at its start, and end.

For a deployment's own step before its servers start; a store that a later version wrote is refused.
"""

import argparse

from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import make_private
from contextrender_bridge.setting_kinds import as_folder
from contextrender_bridge.settings import current_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender migrate`."""
    parser.add_argument(
        "--data",
        type=as_folder,
        default=current_settings().data,
        metavar="DIR",
        help="data folder (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Opens graph and accounts, which brings both up to date."""
    from contextrender_bridge.server import build_app
    from contextrender_bridge.server.recovering import STORE_TROUBLE

    try:
        service = build_app(make_private(args.data)).state.service
    except STORE_TROUBLE as trouble:
        raise CommandError(f"the store cannot be opened: {trouble}") from None
    print(f"{service.runtime.store.place} has the layout of this version.")
    service.close()
    return 0
