"""Add a user or make a token; the server may be running."""

import argparse
import sys
from pathlib import Path

from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import app_dir, data_dir, make_private


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender user`."""
    parser.add_argument("action", choices=["add", "token"], help="add a user, or make a new token")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--password-stdin", action="store_true", help="read a password for /user/login from stdin"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"the server's ({data_dir()})")


def run(args: argparse.Namespace) -> int:
    """Print the user's token."""
    from contextrender_bridge.server.accounts import Accounts
    from contextrender_bridge.server.runtime import Runtime

    password = sys.stdin.readline().rstrip("\r\n") if args.password_stdin else None
    data = make_private(args.data or data_dir())
    accounts = Accounts(Runtime(app_dir(), data), data)
    if args.action == "add":
        print(accounts.token(accounts.add(args.name, password)))
        return 0
    if (user := accounts.find(args.name)) is None:
        raise CommandError(f"there is no user '{args.name}'.")
    print(accounts.token(user))
    return 0
