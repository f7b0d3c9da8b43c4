"""`contextrender`: one table of subcommands, each imported only when it runs.

A subcommand is a module with `add_arguments(parser)` and `run(args) -> int`. `args.words` is the
command as it was given.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from contextrender_bridge.errors import CommandError, ContextRenderError
from contextrender_bridge.installing import how_to_serve
from contextrender_bridge.paths import make_app_importable

HERE = "contextrender_bridge"


@dataclass(frozen=True)
class Subcommand:
    """A row of the table. `server` says that it needs the `[server]` extra."""

    help: str
    module: str
    server: bool = False


SUBCOMMANDS = {
    "serve": Subcommand("run the service", f"{HERE}.server.serve", server=True),
    "user": Subcommand("add users, make tokens", f"{HERE}.cli.user", server=True),
    "copy": Subcommand("move to another database", f"{HERE}.cli.copy", server=True),
    "backup": Subcommand("back up while it runs", f"{HERE}.cli.backup", server=True),
    "gc": Subcommand("delete what is not kept", f"{HERE}.cli.gc", server=True),
    "restore": Subcommand("restore a backup", f"{HERE}.cli.restore", server=True),
    "migrate": Subcommand("bring the store up to date", f"{HERE}.cli.migrate", server=True),
    "check": Subcommand("find damaged rows in the store", f"{HERE}.cli.check", server=True),
    "doctor": Subcommand("check the set-up and say what to do", f"{HERE}.cli.doctor"),
    "sessions": Subcommand("list sessions", f"{HERE}.cli.look.sessions"),
    "search": Subcommand("search sessions' contents", f"{HERE}.cli.look.search"),
    "savings": Subcommand("say what all sessions saved", f"{HERE}.cli.look.savings"),
    "console": Subcommand("open the console in a browser", f"{HERE}.cli.look.console"),
    "share": Subcommand("make a read-only link to a session", f"{HERE}.cli.look.share"),
    "show": Subcommand("show a session or a call", f"{HERE}.cli.look.show"),
    "explain": Subcommand("say why results were shown", f"{HERE}.cli.look.explain"),
    "recall": Subcommand("print complete results", f"{HERE}.cli.look.recall"),
    "holdout": Subcommand("compare with sessions sent whole", f"{HERE}.cli.look.holdout"),
    "graph": Subcommand("draw the graph of reuse", f"{HERE}.cli.look.graph"),
    "jac": Subcommand("run your own walker, draw a session", f"{HERE}.cli.jac", server=True),
    "replay": Subcommand("measure policies on runs", "evaluation.command", server=True),
    "eval": Subcommand("write the whole report on runs", "evaluation.evaluate", server=True),
    "advise": Subcommand("say what policy and budget to use", "evaluation.advise", server=True),
    "demo": Subcommand("start the service and replay runs", "evaluation.demo", server=True),
    "proxy": Subcommand("make model calls fit", f"{HERE}.proxy.command"),
    "config": Subcommand("show the settings in force", f"{HERE}.cli.config"),
    "wrap": Subcommand("run an agent through it", f"{HERE}.wrap.command"),
    "audit": Subcommand(
        "say what your runs cost, and would have", f"{HERE}.audit.command", server=True
    ),
    "mcp": Subcommand("serve recall to MCP clients", f"{HERE}.cli.mcp"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Errors the user can mend are one sentence on stderr."""
    parser = _parser()
    chosen = parser.parse_args(argv)
    if chosen.command is None:
        parser.print_help()
        return 0
    try:
        return _run(chosen.command, chosen.arguments)
    except CommandError as error:
        print(f"contextrender: {error}", file=sys.stderr)
        return error.status
    except ContextRenderError as error:
        print(f"contextrender: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<8} {row.help}" for name, row in SUBCOMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="contextrender",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Agent histories within a token budget.",
        epilog=f"commands:\n{listing}\n\n`contextrender COMMAND --help` lists a command's options.",
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
    module = importlib.import_module(row.module)
    parser = argparse.ArgumentParser(prog=f"contextrender {name}", description=module.__doc__)
    module.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    parsed.words = [parser.prog, *arguments]
    status: int = module.run(parsed)
    return status
