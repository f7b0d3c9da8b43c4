"""Manage users and their tokens. Changes apply at once, even to running servers."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import app_dir, make_data_private
from contextrender_bridge.cli.parser import add_data

if TYPE_CHECKING:
    from contextrender_bridge.server.accounts.users import Accounts
    from contextrender_bridge.server.runtime import Runtime

MAX_DAYS = 3650


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender user`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = _action(actions, "add", "add a user and print a token")
    add.add_argument(
        "--password-stdin", action="store_true", help="read a password for /user/login from stdin"
    )
    token = _action(actions, "token", "print a new token")
    token.add_argument("--revoke", action="store_true", help="revoke all tokens; print none")
    for action_parser in (add, token):
        action_parser.add_argument(
            "--days",
            type=int,
            metavar="N",
            help="days until the token expires (CONTEXTRENDER_TOKEN_DAYS)",
        )
    _action(actions, "password", "set a user's password from stdin, and revoke the user's tokens")
    remove = _action(actions, "remove", "remove a user and delete the user's sessions")
    remove.add_argument(
        "--delete-sessions",
        action="store_true",
        required=True,
        help="required: confirm that the user's sessions are deleted",
    )
    _action(actions, "root", "print the id of a user's root, for `jac enter -r`")
    _action(actions, "list", "list the users", has_name=False)


def run(args: argparse.Namespace) -> int:
    """Run the action on the accounts of the data folder, and print its result. Return 0.

    Raise CommandError if the action fails, for example for an unknown user.
    """
    days = getattr(args, "days", None)  # None stands for the number in the settings
    with open_accounts(args.data) as (_, accounts):
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--days must be a number from 1 to {MAX_DAYS}.")
        if args.action == "add":
            user_id = accounts.add(args.name, _read_line() if args.password_stdin else None)
            print(accounts.token(user_id, days))
        elif args.action == "token" and args.revoke:  # nothing is printed
            accounts.revoke(accounts.user_named(args.name))
        elif args.action == "token":
            user_id = accounts.user_named(args.name).user
            print(accounts.token(user_id, days))
        elif args.action == "root":
            print(accounts.user_named(args.name).root)
        elif args.action == "password":
            accounts.set_password(args.name, _read_line())
        elif args.action == "remove":
            count = accounts.remove(args.name)
            print(f"Removed '{args.name}'; sessions deleted: {count}.")
        else:
            for user in accounts.all():
                print(user.name if user.active else f"{user.name} (locked out)")
    return 0


@contextmanager
def open_accounts(data: Path) -> Iterator[tuple["Runtime", "Accounts"]]:
    """Open the store of a data folder, and yield it with its accounts while the block runs."""
    from contextrender_bridge.server.accounts.users import Accounts
    from contextrender_bridge.server.runtime import Runtime

    make_data_private(data)
    with closing(Runtime(app_dir(), data)) as runtime:
        yield runtime, Accounts(runtime, data)


def _read_line() -> str:
    """Return a line of standard input without its end."""
    return sys.stdin.readline().rstrip("\r\n")


def _action(actions: argparse._SubParsersAction, name: str, text: str, *, has_name: bool = True):  # type: ignore[no-untyped-def, type-arg]
    """Add an action, such as `add`, and return its parser. `text` is its help.

    It takes a data folder and, unless `has_name` is false, a user's name.
    """
    parser = actions.add_parser(name, help=text, description=text)
    if has_name:
        parser.add_argument("name", metavar="NAME")
    add_data(parser)
    return parser
