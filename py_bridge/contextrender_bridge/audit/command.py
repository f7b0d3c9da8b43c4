"""Say what your agents' runs cost, and what they would have cost with ContextRender.

Without FILE, what Claude Code, Codex, opencode, OpenClaw and Hermes have left here. FILEs are
histories or requests of OpenAI's and Anthropic's APIs, or OpenTelemetry spans of model calls.
Nothing leaves the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from contextrender_bridge.audit.claude import read_claude
from contextrender_bridge.audit.codex import read_codex
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.hermes import read_hermes
from contextrender_bridge.audit.openclaw import read_openclaw
from contextrender_bridge.audit.opencode import read_opencode
from contextrender_bridge.audit.report import Audit, as_json, as_page, as_text
from contextrender_bridge.audit.run_costs import bills_of, written_anew
from contextrender_bridge.audit.run_reader import AuditInput
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import environment_without
from contextrender_bridge.evaluation.export import write
from contextrender_bridge.printing import add_json, print_json

MOST = 600
READERS: Mapping[str, Callable[[Path, AuditInput], None]] = {
    "claude": read_claude,
    "codex": read_codex,
    "hermes": read_hermes,
    "openclaw": read_openclaw,
    "opencode": read_opencode,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender audit`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a file, or a folder")
    parser.add_argument("--agent", choices=list(READERS), help="only this agent's sessions")
    parser.add_argument(
        "--limit",
        type=int,
        default=MOST,
        metavar="N",
        help="replay the newest runs, of some N model calls (%(default)s)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes (one a processor)")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write it as an HTML page")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Reads, adds up, replays and tells."""
    found = AuditInput()
    chosen = {name: home for name, home in homes().items() if args.agent in (None, name)}
    if args.files:
        for path in args.files:
            read_files(path, found)
    else:
        for name, home in chosen.items():
            READERS[name](home, found)
    if not found.runs:
        where = ", ".join(map(str, args.files or chosen.values()))
        raise CommandError(f"there are no runs in {where}.")
    from contextrender_bridge.audit.replay import replay

    replayed = replay(found.runs, max(args.limit, 1), args.workers)
    audit = Audit(found, bills_of(found.runs), written_anew(found.runs), replayed)
    if args.html:
        write(as_page(audit), args.html)
    if args.json:
        return print_json(as_json(audit))
    out = Console(highlight=False)
    for part in as_text(audit):
        out.print(part, soft_wrap=isinstance(part, str), markup=False)
    return 0


def homes() -> dict[str, Path]:
    """The folders where agents keep their sessions, by the agent's name."""
    home = Path.home()
    variables = environment_without()
    data = Path(variables.get("XDG_DATA_HOME") or home / ".local" / "share")
    return {
        "claude": Path(variables.get("CLAUDE_CONFIG_DIR") or home / ".claude").expanduser(),
        "codex": Path(variables.get("CODEX_HOME") or home / ".codex").expanduser(),
        "hermes": Path(variables.get("HERMES_HOME") or home / ".hermes").expanduser(),
        "openclaw": Path(variables.get("OPENCLAW_STATE_DIR") or home / ".openclaw").expanduser(),
        "opencode": data / "opencode",
    }
