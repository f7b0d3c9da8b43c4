"""Import sessions from files that `contextrender export` or the console wrote."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.look.asking import Service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender import`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="`-` is standard input")
    parser.add_argument(
        "--as", dest="name", metavar="SESSION", help="name of the session, for one file"
    )


def run(args: argparse.Namespace) -> int:
    """Import one file after the other; the first that cannot be read or is refused ends it."""
    if args.name and len(args.files) > 1:
        raise CommandError("--as names one session: give one file.")
    with Service() as service:
        for file in args.files:
            made = service.ask("import_session", data=_read(file), session=args.name)
            print(f"imported {made['session']}: {made['recorded']} messages")
    return 0


def _read(file: str) -> Json:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        data: Json = json.loads(text)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise CommandError(f"{file} is not an exported session: it is not JSON.") from None
    return data
