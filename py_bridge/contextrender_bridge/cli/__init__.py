"""`contextrender`: one table of subcommands, each imported only when it runs.

A subcommand is a module, or a class in one, with `add_arguments(parser)` and `run(args) -> int`.
`args.words` is the command as it was given.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.paths import make_app_importable
from contextrender_bridge.base.settings import unknown_variables
from contextrender_bridge.printing import printable

HERE = "contextrender_bridge"


@dataclass(frozen=True)
class Subcommand:
    """A row of the table. `server` says that it needs the `[server]` extra."""

    help: str
    place: str
    server: bool = False


GROUPS = {
    "Use it": {
        "wrap": Subcommand("run a coding agent through it", f"{HERE}.wrap.command"),
        "install": Subcommand("install its plugin in an agent", f"{HERE}.plugins.install_command"),
        "proxy": Subcommand("shorten any program's model calls", f"{HERE}.proxy.command"),
        "serve": Subcommand("run the service", f"{HERE}.server.process.start", server=True),
        "mcp": Subcommand("serve recall to MCP clients", f"{HERE}.cli.mcp"),
    },
    "See what it did": {
        "console": Subcommand("open the console in a browser", f"{HERE}.cli.inspect.console"),
        "sessions": Subcommand("list sessions", f"{HERE}.cli.inspect.sessions"),
        "show": Subcommand("show a session or a call", f"{HERE}.cli.inspect.show"),
        "misses": Subcommand("list used values that prompts lacked", f"{HERE}.cli.inspect.misses"),
        "explain": Subcommand("say why results were shown or not", f"{HERE}.cli.inspect.explain"),
        "recall": Subcommand("print complete results", f"{HERE}.cli.inspect.recall"),
        "search": Subcommand("search the contents of sessions", f"{HERE}.cli.inspect.search"),
        "graph": Subcommand("draw the graph of reuse", f"{HERE}.cli.inspect.graph"),
        "tools": Subcommand("show what each tool costs", f"{HERE}.cli.inspect.tools"),
        "savings": Subcommand("show what all sessions saved", f"{HERE}.cli.inspect.savings"),
        "holdout": Subcommand("compare with sessions sent whole", f"{HERE}.cli.inspect.holdout"),
        "share": Subcommand("make a read-only link to a session", f"{HERE}.cli.inspect.share"),
    },
    "Measure": {
        "open": Subcommand(
            "say why a recorded session went wrong", f"{HERE}.audit.open_command", server=True
        ),
        "audit": Subcommand(
            "say what your runs cost, and could have", f"{HERE}.audit.command", server=True
        ),
        "recommend": Subcommand(
            "recommend a policy and a budget",
            f"{HERE}.evaluation.recommend_command",
            server=True,
        ),
        "replay": Subcommand(
            "measure policies on runs",
            f"{HERE}.evaluation.replay_command",
            server=True,
        ),
        "eval": Subcommand(
            "write a whole report on runs",
            f"{HERE}.evaluation.eval_command",
            server=True,
        ),
        "demo": Subcommand("replay a recorded run", f"{HERE}.evaluation.demo", server=True),
        "price": Subcommand("show or set a model's price", f"{HERE}.cli.price"),
    },
    "Operate": {
        "doctor": Subcommand("check the set-up and say what to do", f"{HERE}.cli.doctor"),
        "config": Subcommand("show the settings in force", f"{HERE}.cli.config"),
        "user": Subcommand("add users, make tokens", f"{HERE}.cli.user", server=True),
        "export": Subcommand("write a session to a file", f"{HERE}.cli.whole_sessions:Export"),
        "import": Subcommand("import sessions from files", f"{HERE}.cli.whole_sessions:Import"),
        "delete": Subcommand("delete sessions for good", f"{HERE}.cli.whole_sessions:Delete"),
        "gc": Subcommand(
            "delete sessions beyond the limits", f"{HERE}.cli.store:Collect", server=True
        ),
        "backup": Subcommand("back up the store", f"{HERE}.cli.store:Backup", server=True),
        "restore": Subcommand("restore a backup", f"{HERE}.cli.store:Restore", server=True),
        "check": Subcommand(
            "find damaged rows in the store", f"{HERE}.cli.store:Check", server=True
        ),
        "completion": Subcommand("print a shell's completion", f"{HERE}.cli.completion"),
        "uninstall": Subcommand("list what is left here, and remove it", f"{HERE}.cli.uninstall"),
        "jac": Subcommand("run your own walker, draw a session", f"{HERE}.cli.jac", server=True),
    },
}
"""As `--help` lists them, the most used first."""

SUBCOMMANDS = {name: row for rows in GROUPS.values() for name, row in rows.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Errors the user can mend are one sentence on stderr."""
    _replace_unprintable()
    parser = _parser()
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if unknown := _unknown_command(words):
        print(f"contextrender: {unknown}", file=sys.stderr)
        return 2
    chosen = parser.parse_args(words)
    if chosen.command is None:
        parser.print_help()
        return 0
    for strange in unknown_variables() if chosen.command not in ("config", "doctor") else ():
        print(f"contextrender: {strange}", file=sys.stderr)
    try:
        return _run(chosen.command, chosen.arguments)
    except CommandError as error:
        print(f"contextrender: {error}", file=sys.stderr)
        return error.status
    except ContextRenderError as error:
        print(f"contextrender: {printable(error.message)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141


def _replace_unprintable() -> None:
    """Print a character that the terminal's encoding lacks as another, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _unknown_command(words: Sequence[str]) -> str:
    """Return a sentence on a first word that is no command; empty if it is one, or an option."""
    if not words or words[0].startswith("-") or words[0] in SUBCOMMANDS:
        return ""
    name = printable(words[0], 40)
    near = get_close_matches(words[0], SUBCOMMANDS, 1)
    hint = (
        f"did you mean `contextrender {near[0]}`?" if near else "`contextrender --help` lists them."
    )
    return f"there is no command {name!r}; {hint}"


def _parser() -> argparse.ArgumentParser:
    listing = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<10} {row.help}" for name, row in rows.items())])
        for title, rows in GROUPS.items()
    )
    parser = argparse.ArgumentParser(
        prog="contextrender",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Agent histories within a token budget.",
        epilog=f"{listing}\n\n`contextrender COMMAND --help` lists a command's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version("contextrender"))
    parser.add_argument(
        "command", nargs="?", choices=SUBCOMMANDS, metavar="COMMAND", help=argparse.SUPPRESS
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _run(name: str, arguments: Sequence[str]) -> int:
    row = SUBCOMMANDS[name]
    if row.server and importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"`contextrender {name}` needs the server: {how_to_serve()}.")
    if row.server:
        make_app_importable()
    command = pkgutil.resolve_name(row.place)
    parser = argparse.ArgumentParser(prog=f"contextrender {name}", description=command.__doc__)
    command.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    parsed.words = [parser.prog, *arguments]
    status: int = command.run(parsed)
    return status
