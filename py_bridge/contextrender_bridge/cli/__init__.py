"""The command `contextrender`: a table of subcommands, each imported only when it runs.

A subcommand is a module, or a class in one, with `run(args) -> int` and, unless it has no options,
`add_arguments(parser)`. `args.words` has the command and its arguments as they were typed.
"""

import argparse
import importlib.util
import io
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib.metadata import version

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.paths import make_app_importable
from contextrender_bridge.base.settings import unknown_variables
from contextrender_bridge.cli.parser import OptionParser
from contextrender_bridge.printing import print_notice, printable


@dataclass(frozen=True)
class Subcommand:
    """A subcommand. `path` is its module in this package, or `module:class` for a class.

    `needs_server` means that it runs only if the extra `server` is installed.
    """

    help: str
    path: str
    needs_server: bool = False

    @property
    def module(self) -> str:
        """The full name of the module or class."""
        return f"contextrender_bridge.{self.path}"


server_command = partial(Subcommand, needs_server=True)

GROUPS = {
    "Use ContextRender": {
        "wrap": Subcommand("run a coding agent with ContextRender", "wrap.command"),
        "install": Subcommand("install the plugin in an agent", "plugins.install_command"),
        "proxy": Subcommand("shorten any program's model calls", "proxy.command"),
        "serve": server_command("run the service", "server.process.start"),
        "mcp": Subcommand("serve recall to MCP clients", "cli.mcp"),
    },
    "Inspect sessions": {
        "console": Subcommand("open the console in a browser", "cli.inspect.console"),
        "sessions": Subcommand("list sessions", "cli.inspect.sessions"),
        "show": Subcommand("show a session or a call", "cli.inspect.show"),
        "misses": Subcommand("list used values that were not in the prompt", "cli.inspect.misses"),
        "explain": Subcommand("explain why results were shown or not", "cli.inspect.explain"),
        "recall": Subcommand("print complete results", "cli.inspect.recall"),
        "search": Subcommand("search the contents of sessions", "cli.inspect.search"),
        "graph": Subcommand("print the graph of reused results", "cli.inspect.graph"),
        "tools": Subcommand("show what each tool costs", "cli.inspect.tools"),
        "savings": Subcommand("show what all sessions saved", "cli.inspect.savings"),
        "holdout": Subcommand("compare with sessions sent in full", "cli.inspect.holdout"),
        "share": Subcommand("create a read-only link to a session", "cli.inspect.share"),
    },
    "Measure": {
        "open": server_command("explain why a recorded session went wrong", "audit.open_command"),
        "audit": server_command("report what runs cost, and could have cost", "audit.command"),
        "recommend": server_command("recommend a policy and a budget", "cli.measure.recommend"),
        "replay": server_command("measure policies on recorded runs", "cli.measure.replay"),
        "eval": server_command("write a full report on recorded runs", "cli.measure.report"),
        "demo": server_command("replay a recorded run", "evaluation.demo"),
        "price": Subcommand("show or set a model's price", "cli.price"),
    },
    "Operate": {
        "doctor": Subcommand("check the installation, and suggest fixes", "cli.doctor"),
        "config": Subcommand("show the settings and their sources", "cli.config"),
        "user": server_command("manage users and their tokens", "cli.user"),
        "export": Subcommand("write a session to a file", "cli.whole_sessions:Export"),
        "import": Subcommand("import sessions from files", "cli.whole_sessions:Import"),
        "delete": Subcommand("delete sessions permanently", "cli.whole_sessions:Delete"),
        "gc": server_command("delete sessions beyond the retention limits", "cli.store:Collect"),
        "backup": server_command("back up the store", "cli.store:Backup"),
        "restore": server_command("restore a backup", "cli.store:Restore"),
        "check": server_command("find damaged rows in the store", "cli.store:Check"),
        "completion": Subcommand("print a completion script for a shell", "cli.completion"),
        "uninstall": Subcommand("remove ContextRender's files and plugins", "cli.uninstall"),
        "jac": server_command("run your own walker, or draw a session", "cli.jac"),
    },
}
"""The subcommands in the order of `--help`. In each group, the most used comes first."""

SUBCOMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code. Without a command, print help.

    `argv` has the words after `contextrender`; None stands for this process's arguments. Before the
    subcommand runs, warn of unknown variables in the environment. Print an error that the user can
    mend as one sentence. Return 130 after Ctrl-C, and 141 if the output is closed.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Print `?` for characters that the terminal's encoding lacks, instead of failing.
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]  # read `help show` as `show --help`
    if message := _unknown_command_message(words):
        print_notice(message)
        return 2
    parser = _parser()
    parsed = parser.parse_args(words)
    if parsed.command is None:
        parser.print_help()
        return 0
    if parsed.command not in ("config", "doctor"):  # these two print the sentences themselves
        for sentence in unknown_variables():
            print_notice(sentence)
    try:
        return _run_subcommand(parsed.command, parsed.arguments)
    except CommandError as error:
        print_notice(str(error))
        return error.status
    except ContextRenderError as error:
        print_notice(printable(error.message))
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell reports SIGINT
    except BrokenPipeError:
        sys.stderr.close()
        return 141  # as a shell reports SIGPIPE


def _unknown_command_message(words: Sequence[str]) -> str:
    """Return an error message if the first word is an unknown command; otherwise an empty text.

    The message names the most similar command.
    """
    if not words or words[0].startswith("-") or words[0] in SUBCOMMANDS:
        return ""
    name = printable(words[0], 40)
    hint = "`contextrender --help` lists them."
    if similar := get_close_matches(words[0], SUBCOMMANDS, 1):
        hint = f"did you mean `contextrender {similar[0]}`?"
    return f"there is no command {name!r}; {hint}"


def _parser() -> argparse.ArgumentParser:
    """Return a parser that only splits the subcommand's name from its arguments.

    Its help lists the subcommands by group. `_run_subcommand` parses the arguments.
    """
    groups = []
    for title, subcommands in GROUPS.items():
        lines = [f"  {name:<10} {subcommand.help}" for name, subcommand in subcommands.items()]
        groups.append("\n".join([f"{title}:", *lines]))
    listing = "\n\n".join(groups)
    parser = OptionParser(
        prog="contextrender",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Agent histories within a token budget.",
        epilog=f"{listing}\n\n`contextrender COMMAND --help` lists a command's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version("contextrender"))
    # The listing above shows the commands, so suppress argparse's own.
    parser.add_argument(
        "command", nargs="?", choices=SUBCOMMANDS, metavar="COMMAND", help=argparse.SUPPRESS
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _run_subcommand(name: str, arguments: Sequence[str]) -> int:
    """Import a subcommand, parse its arguments, run it, and return its exit code.

    Raise CommandError if it needs the server, and the extra `server` is not installed.
    """
    subcommand = SUBCOMMANDS[name]
    if subcommand.needs_server and importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"`contextrender {name}` needs the server: {how_to_serve()}.")
    if subcommand.needs_server:
        make_app_importable()
    # The command is a module or a class. Its docstring is the text of its help.
    command = pkgutil.resolve_name(subcommand.module)
    parser = OptionParser(prog=f"contextrender {name}", description=command.__doc__)
    if hasattr(command, "add_arguments"):
        command.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    parsed.words = [parser.prog, *arguments]
    status: int = command.run(parsed)
    return status
