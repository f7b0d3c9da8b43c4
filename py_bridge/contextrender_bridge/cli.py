"""`contextrender`: one table of subcommands, each imported only when it runs.

A subcommand is a module with `add_arguments(parser)` and `run(args) -> int`. `args.words` is the
command as it was given.
"""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import make_app_importable


@dataclass(frozen=True)
class Subcommand:
    """A row of the table. `server` says that it needs the `[server]` extra."""

    help: str
    module: str
    server: bool = True


SUBCOMMANDS = {
    "serve": Subcommand("run the service", "contextrender_bridge.server.serve"),
    "user": Subcommand("add users, make tokens", "contextrender_bridge.server.user"),
    "sessions": Subcommand("list sessions", "contextrender_bridge.look.sessions"),
    "show": Subcommand("show a session or a call", "contextrender_bridge.look.show"),
    "explain": Subcommand("say why results were shown", "contextrender_bridge.look.explain"),
    "graph": Subcommand("draw the graph of reuse", "contextrender_bridge.look.graph"),
    "replay": Subcommand("measure policies on runs", "evaluation.command"),
    "eval": Subcommand("write the whole report on runs", "evaluation.evaluate"),
    "demo": Subcommand("start the service and replay runs", "evaluation.demo"),
    "proxy": Subcommand("make model calls fit", "contextrender_bridge.proxy.command", False),
    "mcp": Subcommand("serve recall to MCP clients", "contextrender_bridge.mcp_command", False),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Errors the user can mend are one sentence on stderr."""
    listing = "\n".join(f"  {name:<8} {row.help}" for name, row in SUBCOMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="contextrender",
        description="Agent histories within a token budget.",
        epilog=f"commands:\n{listing}\n\n`contextrender COMMAND --help` lists a command's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version("contextrender"))
    parser.add_argument("command", choices=SUBCOMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    try:
        return _run(chosen.command, chosen.arguments)
    except CommandError as error:
        print(f"contextrender: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141


def _run(name: str, arguments: Sequence[str]) -> int:
    row = SUBCOMMANDS[name]
    if row.server and importlib.util.find_spec("jaclang") is None:
        raise CommandError(
            f"`contextrender {name}` needs the server: Python 3.12 or newer and "
            "`pip install 'contextrender[server]'`."
        )
    if row.server:
        make_app_importable()
    module = importlib.import_module(row.module)
    parser = argparse.ArgumentParser(prog=f"contextrender {name}", description=module.__doc__)
    module.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    parsed.words = [parser.prog, *arguments]
    status: int = module.run(parsed)
    return status
