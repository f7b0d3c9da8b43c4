"""The commands `export`, `import` and `delete`, which work on whole sessions."""

import argparse
import json
import sys
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, Conflict
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import ServiceClient
from contextrender_bridge.cli.parser import is_confirmed
from contextrender_bridge.printing import as_json_text


class Export:
    """Write a session to a JSON file, to keep it or to import it elsewhere."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of `contextrender export`."""
        parser.add_argument("session", metavar="SESSION")
        parser.add_argument("file", nargs="?", metavar="FILE", help="output file (standard output)")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Write the export to the file. If no file is named, write it to standard output.

        Raise CommandError if the file already exists or cannot be written.
        """
        if args.file is not None and Path(args.file).exists():
            raise CommandError(f"{args.file} already exists; remove it, or name another file.")
        with ServiceClient() as service:
            export = service.ask("export_session", session=args.session)
        if args.file is None:
            sys.stdout.write(as_json_text(export) + "\n")
            return 0
        try:
            with Path(args.file).open("x", encoding="utf-8") as file:
                file.write(json.dumps(export, ensure_ascii=False) + "\n")
        except OSError as error:
            raise CommandError(f"{args.file} cannot be written: {error.strerror}.") from None
        print(f"wrote {args.session} to {args.file}; `contextrender import {args.file}` imports it")
        return 0


class Import:
    """Import sessions from files that `contextrender export` or the console wrote."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of `contextrender import`."""
        parser.add_argument("files", nargs="+", metavar="FILE", help="`-` is standard input")
        parser.add_argument(
            "--as", dest="name", metavar="SESSION", help="name of the session, for one file"
        )

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Import the files in order, and print a line for each.

        At the first file that cannot be read or imported, raise an error. The files before it stay
        imported.
        """
        if args.name and len(args.files) > 1:
            raise CommandError("--as names one session, so it takes only one FILE.")
        with ServiceClient() as service:
            for file in args.files:
                try:
                    data = _read_export(file)
                    imported = service.ask("import_session", data=data, session=args.name)
                except Conflict as conflict:
                    raise CommandError(
                        f"{conflict.message.rstrip('.')}. Use --as NAME to give it another name."
                    ) from None
                print(f"imported {imported['session']}: {imported['recorded']} messages")
        return 0


class Delete:
    """Delete sessions for good."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of `contextrender delete`."""
        parser.add_argument("sessions", nargs="+", metavar="SESSION")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Delete the sessions after a confirmation, at the terminal or by `--yes`.

        Return 1 if the user does not confirm, otherwise 0.
        """
        names = ", ".join(args.sessions)
        if not is_confirmed(f"Delete {names}", has_option=args.yes):
            print("nothing was deleted")
            return 1
        with ServiceClient() as service:
            for session in args.sessions:
                service.ask("delete_session", session=session)
                print(f"deleted {session}")
        return 0


def _read_export(file: str) -> Json:
    """Return the JSON in a file, or in standard input if `file` is `-`.

    Raise CommandError if it cannot be read or is not a JSON object.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
        data = json.loads(text)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise CommandError(f"{file} is not an exported session: it is nested too deeply.") from None
    except ValueError:
        raise CommandError(f"{file} is not an exported session: it is not JSON.") from None
    if not isinstance(data, dict):
        raise CommandError(f"{file} is not an exported session: it is no JSON object.")
    return data
