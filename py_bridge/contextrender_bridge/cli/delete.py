"""Delete sessions for good."""

from __future__ import annotations

import argparse
import sys

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.cli.look.asking import Service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender delete`."""
    parser.add_argument("sessions", nargs="+", metavar="SESSION")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Delete each, once that is confirmed."""
    names = ", ".join(args.sessions)
    if not args.yes:
        if not sys.stdin.isatty():
            raise CommandError("this is no terminal: confirm with --yes.")
        if input(f"Delete {names} for good? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was deleted")
            return 1
    with Service() as service:
        for session in args.sessions:
            service.ask("delete_session", session=session)
            print(f"deleted {session}")
    return 0
