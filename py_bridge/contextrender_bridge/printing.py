"""What commands print: JSON, and agents' texts without control characters."""

from __future__ import annotations

import argparse
import json
import sys


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option for programs."""
    parser.add_argument("--json", action="store_true", help="print the reply as JSON")


def print_json(value: object) -> int:
    """Print one JSON document on standard output."""
    print(as_json_text(value, indent=1))
    return 0


def as_json_text(value: object, indent: int | None = None) -> str:
    """Return JSON for standard output. What its encoding may lack is escaped, not replaced."""
    is_ascii = (sys.stdout.encoding or "").lower().replace("-", "") not in ("utf8", "utf_8")
    return json.dumps(value, ensure_ascii=is_ascii, indent=indent)


def printable(text: str, longest: int | None = None) -> str:
    """Return one line of a text, without characters that a terminal would act on."""
    line = "".join(char if char.isprintable() else "·" for char in " ".join(text.split()))
    return line if longest is None or len(line) <= longest else line[: longest - 1] + "…"
