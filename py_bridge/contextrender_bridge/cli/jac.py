"""Run a walker of your own on the stored graph, draw one session, or give a command of `jac`.

`run` and `dot` work as one user, also while a server runs on the store, and write nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import ENTRY, app_dir, data_dir, make_data_private


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender jac`."""
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run the walker of a file from the user's root")
    run.add_argument("file", type=Path, metavar="FILE", help="a file of Jac")
    run.add_argument("values", nargs="*", metavar="VALUE", help="the walker's fields, in order")
    run.add_argument("--walker", metavar="NAME", help="which of the file's walkers")
    dot = actions.add_parser("dot", help="print one session's graph for Graphviz")
    dot.add_argument("session", metavar="SESSION")
    for action in (run, dot):
        action.add_argument("--user", default="local", help="whose graph (local)")
    enter = "run a walker from a node, which may write, as `jac enter`"
    for name, text in (("enter", enter), ("db", "look into the store's rows, as `jac db`")):
        # Another prefix, so that what looks like an option is jac's.
        action = actions.add_parser(name, help=text, prefix_chars="+", add_help=False)
        action.add_argument(
            "command", nargs=argparse.REMAINDER, metavar="...", help="in words of jac"
        )
    for action in (run, dot):
        action.add_argument("--data", type=Path, metavar="DIR", help=f"the server's ({data_dir()})")


def run(args: argparse.Namespace) -> int:
    """Print what the walker prints, or the graph."""
    if args.action in ("enter", "db"):
        return _run_jac(args.action, args.command)
    with _as_user(args.user, args.data):
        if args.action == "run":
            _walk(args.file, args.walker, args.values)
        else:
            from contextrender_bridge.runtime.developing import drawn

            if (picture := drawn(args.session)) is None:
                raise CommandError(f"there is no session {args.session!r}.")
            print(picture)
    return 0


def _run_jac(action: str, words: Sequence[str]) -> int:
    """Run the installed `jac`, which need not be on the PATH, on the data folder."""
    if action == "db" and "--app" not in words and not {"-h", "--help"} & set(words):
        words = [*words, "--app", str(app_dir() / ENTRY)]
    variables = {**os.environ, "CONTEXTRENDER_DATA": str(data_dir())}
    return subprocess.call([sys.executable, "-m", "jaclang", action, *words], env=variables)


@contextmanager
def _as_user(name: str, folder: Path | None) -> Iterator[None]:
    """Jac's calls work on that user's graph; what they change is forgotten."""
    from contextrender_bridge.server.accounts.users import Accounts
    from contextrender_bridge.server.runtime import Runtime

    data = make_data_private(folder or data_dir())
    with (
        closing(Runtime(app_dir(), data)) as runtime,
        runtime.unit_of_work(Accounts(runtime, data).user_named(name).root),
    ):
        yield


def _walk(file: Path, name: str | None, values: Sequence[str]) -> None:
    from contextrender_bridge.runtime.developing import naming_lines, spawn_at_root

    with naming_lines(file):
        walker = _walker_of(file, name)
    fields = [field for field in dataclasses.fields(walker) if field.init]
    if len(values) > len(fields):
        raise CommandError(f"{walker.__name__} takes {len(fields)} values at most.")
    given = {
        field.name: _read(value, field.type) for field, value in zip(fields, values, strict=False)
    }
    with naming_lines(file):
        try:
            made = walker(**given)
        except TypeError as problem:
            raise CommandError(f"{walker.__name__} cannot be made: {problem}.") from None
        spawn_at_root(made)


def _walker_of(file: Path, name: str | None) -> Any:
    from contextrender_bridge.runtime.developing import walkers_of

    if not file.is_file():
        raise CommandError(f"there is no file {file}.")
    own = walkers_of(file)
    if name is None and len(own) == 1:
        return next(iter(own.values()))
    if name not in own:
        raise CommandError(f"name one of the walkers of {file}: {', '.join(own) or 'it has none'}.")
    return own[name]


def _read(value: str, kind: object) -> Any:
    """A value of the command line: text for a field of text, else JSON."""
    if kind in (str, "str"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
