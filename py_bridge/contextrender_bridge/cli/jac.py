"""Run your own walker on the stored graph, draw one session, or run a command of `jac`.

`run` and `dot` read the graph of one user and write nothing. A server may run at the same time.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import ENTRY, app_dir, data_dir
from contextrender_bridge.cli.parser import add_data
from contextrender_bridge.cli.user import open_accounts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender jac`."""
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run the walker of a file from the user's root")
    run.add_argument("file", type=Path, metavar="FILE", help="a file of Jac")
    run.add_argument("values", nargs="*", metavar="VALUE", help="the walker's fields, in order")
    run.add_argument("--walker", metavar="NAME", help="which of the file's walkers")
    dot = actions.add_parser("dot", help="print one session's graph for Graphviz")
    dot.add_argument("session", metavar="SESSION")
    for action in (run, dot):
        action.add_argument("--user", default="local", help="the user whose graph is read (local)")
        add_data(action)
    commands_of_jac = {
        "enter": "run `jac enter`: a walker from a node, which may write",
        "db": "run `jac db`: inspect the store's rows",
    }
    for name, text in commands_of_jac.items():
        # With another prefix for our own options, words such as --help are passed to jac.
        action = actions.add_parser(name, help=text, prefix_chars="+", add_help=False)
        action.add_argument(
            "command", nargs=argparse.REMAINDER, metavar="...", help="arguments for jac"
        )


def run(args: argparse.Namespace) -> int:
    """Run the walker, print the session's graph, or run a command of `jac`.

    Return the exit code of `jac`, otherwise 0.
    """
    if args.action in ("enter", "db"):
        return _run_jac(args.action, args.command)
    with _as_user(args.user, args.data):
        if args.action == "run":
            _run_walker(args.file, args.walker, args.values)
        else:
            from contextrender_bridge.runtime.developing import draw_session

            print(draw_session(args.session))
    return 0


def _run_jac(action: str, words: Sequence[str]) -> int:
    """Run the command `enter` or `db` of `jac` on the data folder, and return its exit code.

    `words` are its arguments. `jac` need not be on the PATH. Raise CommandError if a file of Jac
    does not exist or has a syntax error, because `jac enter` would print a traceback.
    """
    if action == "enter":
        from contextrender_bridge.runtime.developing import check_source

        for file in (Path(word) for word in words if word.endswith(".jac")):
            if not file.is_file():
                raise CommandError(f"there is no file {file}.")
            check_source(file)
    # `jac db` needs to know the app, so name ours unless the user names one.
    asks_for_help = not {"-h", "--help"}.isdisjoint(words)
    if action == "db" and "--app" not in words and not asks_for_help:
        words = [*words, "--app", str(app_dir() / ENTRY)]
    variables = {**os.environ, "CONTEXTRENDER_DATA": str(data_dir())}
    return subprocess.call([sys.executable, "-m", "jaclang", action, *words], env=variables)


@contextmanager
def _as_user(name: str, folder: Path) -> Iterator[None]:
    """Let Jac use the graph of the user `name` while the block runs. Changes are not stored.

    `folder` is the data folder.
    """
    from contextrender_bridge.store.opening import check_store_exists

    check_store_exists(folder)
    with (
        open_accounts(folder) as (runtime, accounts),
        runtime.unit_of_work(accounts.user_named(name).root),
    ):
        yield


def _run_walker(file: Path, name: str | None, values: Sequence[str]) -> None:
    """Run a walker of a file from the user's root, with `values` as its first fields.

    `name` is the walker's name, or None if the file has only one. Raise CommandError, which names
    the failing line, if it fails.
    """
    from contextrender_bridge.runtime.developing import report_failing_line, spawn_at_root

    with report_failing_line(file):
        walker_type = _walker_type(file, name)
    walker_fields = [field for field in dataclasses.fields(walker_type) if field.init]
    if len(values) > len(walker_fields):
        raise CommandError(f"{walker_type.__name__} takes at most {len(walker_fields)} values.")
    # Convert each value to the type of its field. Fields without a value keep their defaults.
    pairs = zip(walker_fields, values, strict=False)
    fields = {field.name: _parse_value(value, field.type) for field, value in pairs}
    with report_failing_line(file):
        try:
            walker = walker_type(**fields)
        except TypeError as problem:
            raise CommandError(f"{walker_type.__name__} cannot be created: {problem}.") from None
        spawn_at_root(walker)


def _walker_type(file: Path, name: str | None) -> Any:
    """Return the type of the walker with this name in a file; the only walker if `name` is None.

    Raise CommandError if there is no file, or no such walker.
    """
    from contextrender_bridge.runtime.developing import walkers_of

    if not file.is_file():
        raise CommandError(f"there is no file {file}.")
    walkers = walkers_of(file)
    if name is None and len(walkers) == 1:
        return next(iter(walkers.values()))
    if name not in walkers:
        raise CommandError(
            f"name one of the walkers of {file}: {', '.join(walkers) or 'it has none'}."
        )
    return walkers[name]


def _parse_value(value: str, field_type: object) -> Any:
    """Return the value for a walker's field from a word of the command line, read as JSON.

    Return the word itself if the field is a text, or if the word is not JSON.
    """
    if field_type in (str, "str"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
