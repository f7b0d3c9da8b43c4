"""What commands print: JSON, and agents' texts without control characters."""

from __future__ import annotations

import argparse
import json


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option for programs."""
    parser.add_argument("--json", action="store_true", help="print the reply as JSON")


def print_json(value: object) -> int:
    """One JSON document on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=1))
    return 0


def printable(text: str, longest: int | None = None) -> str:
    """One line of a text without characters that a terminal would act on."""
    line = "".join(char if char.isprintable() else "·" for char in " ".join(text.split()))
    return line if longest is None or len(line) <= longest else line[: longest - 1] + "…"
