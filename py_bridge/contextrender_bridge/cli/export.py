"""Write a whole session to a file of JSON, to keep it or to import it elsewhere."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.cli.look.asking import Service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender export`."""
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("file", nargs="?", metavar="FILE", help="output file (standard output)")


def run(args: argparse.Namespace) -> int:
    """Write the export; an existing file is not replaced."""
    with Service() as service:
        text = json.dumps(service.ask("export_session", session=args.session), ensure_ascii=False)
    if args.file is None:
        sys.stdout.write(text + "\n")
        return 0
    try:
        with Path(args.file).open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise CommandError(f"{args.file} cannot be written: {error.strerror}.") from None
    print(f"{args.session} is in {args.file}; `contextrender import {args.file}` makes it again")
    return 0
