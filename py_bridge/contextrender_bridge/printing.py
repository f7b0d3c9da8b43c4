"""Options, output and files of commands: numbers, JSON, notices and text files."""

import argparse
import json
import sys
from pathlib import Path

from contextrender_bridge.base.errors import CommandError


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option `--json`, which programs use."""
    parser.add_argument("--json", action="store_true", help="print the reply as JSON")


def add_count(
    parser: argparse.ArgumentParser, name: str, description: str, default: int | None = None
) -> None:
    """Add an option that takes a number of at least 1."""
    parser.add_argument(name, type=positive_count, default=default, metavar="N", help=description)


def positive_count(text: str) -> int:
    """Return a number of at least 1. Raise ArgumentTypeError for anything else."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError("must be a whole number, at least 1")
    return number


def print_json(value: object) -> int:
    """Print one JSON document on standard output. Return 0, the exit code of a command."""
    print(as_json_text(value, indent=1))
    return 0


def as_json_text(value: object, indent: int | None = None) -> str:
    """Return a value as JSON for standard output.

    If the output's encoding is not UTF-8, escape all characters beyond ASCII, which it may lack.
    """
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf_8")
    return json.dumps(value, ensure_ascii=not is_utf8, indent=indent)


def print_notice(text: str) -> None:
    """Print a line on standard error that begins with the program's name."""
    print(f"contextrender: {text}", file=sys.stderr, flush=True)


def write_file(text: str, path: Path) -> None:
    """Write the text to a file in UTF-8. Raise CommandError if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None


def count_of(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 run` or `2,000 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str, longest: int | None = None) -> str:
    """Return a text as one line, without characters that a terminal would act on.

    A line of more than `longest` characters is cut and ends with `…`.
    """
    line = "".join(char if char.isprintable() else "·" for char in " ".join(text.split()))
    if longest is None or len(line) <= longest:
        return line
    return line[: longest - 1] + "…"
