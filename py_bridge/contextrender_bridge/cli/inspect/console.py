"""Open the console in a browser, signed in. Without a browser, print a link that works once."""

import argparse
import sys
import webbrowser
from contextlib import suppress
from urllib.parse import quote

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import can_open_windows
from contextrender_bridge.cli.inspect.common import ServiceClient
from contextrender_bridge.local_service import sign_in_code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender console`."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="open this session")
    parser.add_argument("--turn", type=int, metavar="N", help="open this model call")
    parser.add_argument(
        "--branch", type=int, metavar="N", help="open this branch (the one written last)"
    )
    parser.add_argument("--print", action="store_true", help="print the link, open no browser")


def run(args: argparse.Namespace) -> int:
    """Open the console in a browser, or print the link, at the page that the options name.

    Raise CommandError if there is no such session or turn.
    """
    if args.session is None and (args.turn is not None or args.branch is not None):
        raise CommandError("--turn and --branch need a SESSION.", 2)
    with ServiceClient() as service:
        suffix = link_suffix(service, args.session, args.turn, args.branch)
        link = f"{service.url}/console/#code={sign_in_code(service.url)}{suffix}"
    if args.print or not open_in_browser(link):
        print(link)
    return 0


def link_suffix(
    service: ServiceClient, session: str | None, turn: int | None, branch: int | None
) -> str:
    """Return the end of the console's link, which names a page: as `&to=%2Fsession%2Frun-17`.

    The page is of a session or of one of its turns. If `session` is None, return "". Raise
    CommandError if the session does not have this turn.
    """
    if session is None:
        return ""
    view = service.ask("inspect_session", session=session, branch=branch)
    # Without an option, the page shows the branch that was written last.
    shown_branch = view["head"] if branch is None else branch
    turns_by_branch = {each["number"]: each["turns"] for each in view["branches"]}
    last_turn = turns_by_branch[shown_branch]
    if turn is not None and not 1 <= turn <= last_turn:
        raise CommandError(f"there is no turn {turn}; the last one is {last_turn}.")
    path = f"/session/{quote(view['session']['session'], safe='')}"
    if turn is not None:
        path += f"/call/{turn}"
    if branch is not None:
        path += f"?branch={branch}"
    return f"&to={quote(path, safe='')}"


def open_in_browser(link: str) -> bool:
    """Open a link in a browser, and return whether this succeeded.

    Do not try if standard output is no terminal, or if no window can be opened.
    """
    if not (can_open_windows() and sys.stdout.isatty()):
        return False
    with suppress(webbrowser.Error):
        return webbrowser.open(link)
    return False
