"""Open the console, signed in. Without a browser, print a link that works once."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from contextlib import suppress
from urllib.parse import quote

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import has_windows
from contextrender_bridge.cli.inspect.asking import Service
from contextrender_bridge.local_service import sign_in_code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender console`."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="open this session")
    parser.add_argument("--turn", type=int, metavar="N", help="open this model call")
    parser.add_argument(
        "--branch", type=int, metavar="N", help="which branch (the one written last)"
    )
    parser.add_argument("--print", action="store_true", help="only print the link")


def run(args: argparse.Namespace) -> int:
    """Open the page. What the link names must be there."""
    if args.session is None and (args.turn is not None or args.branch is not None):
        raise CommandError("--turn and --branch are of a SESSION.", 2)
    with Service() as service:
        place = find_place(service, args.session, args.turn, args.branch)
        link = f"{service.url}/console/#code={sign_in_code(service.url)}{place}"
    if args.print or not opened(link):
        print(link)
    return 0


def find_place(service: Service, session: str | None, turn: int | None, branch: int | None) -> str:
    """What a link says of where to go. Raises CommandError where there is no such place."""
    if session is None:
        return ""
    found = service.ask("inspect_session", session=session, branch=branch)
    number = found["head"] if branch is None else branch
    turns = next(line["turns"] for line in found["branches"] if line["number"] == number)
    if turn is not None and not 1 <= turn <= turns:
        raise CommandError(f"there is no turn {turn}; the last one is {turns}.")
    where = f"/session/{quote(found['session']['session'], safe='')}"
    where += "" if turn is None else f"/call/{turn}"
    where += "" if branch is None else f"?branch={branch}"
    return f"&to={quote(where, safe='')}"


def opened(link: str) -> bool:
    """Whether a browser with windows has it: one for terminals would take this one over."""
    if not (has_windows() and sys.stdout.isatty()):
        return False
    with suppress(webbrowser.Error):
        return webbrowser.open(link)
    return False
