"""The parser of a command's options."""

from __future__ import annotations

import argparse
import re
from difflib import get_close_matches
from typing import NoReturn


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
