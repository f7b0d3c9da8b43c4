"""Say what your agents' runs cost, and what they would have cost with ContextRender.

Without FILE, what Claude Code, Codex, opencode, OpenClaw, Hermes and pi have left here. FILEs are
histories or requests of OpenAI's and Anthropic's APIs, or OpenTelemetry spans of model calls.
Nothing leaves the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.claude import read_claude
from contextrender_bridge.audit.codex import read_codex
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.hermes import read_hermes
from contextrender_bridge.audit.openclaw import read_openclaw
from contextrender_bridge.audit.opencode import read_opencode
from contextrender_bridge.audit.pi import read_pi
from contextrender_bridge.audit.report import Audit, as_json, as_page, as_text
from contextrender_bridge.audit.run_costs import bills_of, written_anew
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
    "pi": read_pi,
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
    chosen = {name: folders for name, folders in homes().items() if args.agent in (None, name)}
    if args.files:
        for path in args.files:
            read_files(path, found)
    else:
        for name, folders in chosen.items():
            for home in folders:
                READERS[name](home, found)
    found.settle()
    if not found.runs:
        usual = [folders[0] for folders in chosen.values()]
        where = ", ".join(map(str, args.files or usual))
        raise CommandError(" ".join([f"there are no runs in {where}.", *found.sentences]))
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


def homes() -> dict[str, list[Path]]:
    """Return the folders where agents keep their sessions, by the agent's name."""
    home = Path.home()
    variables = environment_without()

    def folders(name: str, *usual: Path) -> list[Path]:
        own = variables.get(name)
        return [Path(own).expanduser()] if own else list(usual)

    config = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    data = Path(variables.get("XDG_DATA_HOME") or home / ".local" / "share")
    earlier = [home / name for name in (".clawdbot", ".moltbot")]
    return {
        "claude": folders("CLAUDE_CONFIG_DIR", home / ".claude", config / "claude"),
        "codex": folders("CODEX_HOME", home / ".codex"),
        "hermes": folders("HERMES_HOME", home / ".hermes"),
        "openclaw": folders("OPENCLAW_STATE_DIR", home / ".openclaw", *earlier),
        "opencode": [data / "opencode"],
        "pi": folders("PI_CODING_AGENT_DIR", home / ".pi" / "agent"),
    }
