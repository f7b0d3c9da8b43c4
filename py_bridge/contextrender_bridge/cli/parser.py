"""The parser of a command's options, and an option and a question that several commands have."""

import argparse
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import data_dir


class OptionParser(argparse.ArgumentParser):
    """A parser whose messages name the most similar option, and no types of Python."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with status 2."""
        message = re.sub(r"invalid (?:int|float) value: (.*)", r"must be a number, not \1", message)
        beginning, _, words = message.partition("unrecognized arguments: ")
        unknown = words.split(" ")[0].partition("=")[0]
        if not beginning and unknown.startswith("-"):
            similar = get_close_matches(unknown, self._option_string_actions, 1)
            message += f"; did you mean {similar[0]}?" if similar else ""
        super().error(message)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the option `--data`, the server's data folder."""
    help_text = f"the server's data folder ({data_dir()})"
    parser.add_argument("--data", type=Path, default=data_dir(), metavar="DIR", help=help_text)


def is_confirmed(question: str, *, has_option: bool) -> bool:
    """Return whether the user confirms an action: by `--yes` (`has_option`) or at the terminal.

    Raise CommandError if there is no terminal to ask at.
    """
    if has_option:
        return True
    if not sys.stdin.isatty():
        raise CommandError("standard input is not a terminal, so confirm with --yes.")
    return input(f"{question} for good? [y/N] ").strip().lower() in ("y", "yes")
