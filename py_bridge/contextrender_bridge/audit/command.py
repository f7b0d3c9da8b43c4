"""Report what your agents' runs cost, and what they would have cost with ContextRender.

Without FILE, the sessions of Claude Code, Codex, opencode, OpenClaw, Hermes and pi on this machine
are read. A FILE holds histories or requests of OpenAI's or Anthropic's API, or OpenTelemetry spans
of model calls. Nothing leaves the machine.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.claude import read_claude
from contextrender_bridge.audit.codex import read_codex
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.hermes import read_hermes
from contextrender_bridge.audit.openclaw import read_openclaw
from contextrender_bridge.audit.opencode import read_opencode
from contextrender_bridge.audit.pi import read_pi
from contextrender_bridge.audit.replay import replay, run_of
from contextrender_bridge.audit.report import AuditReport, as_json, as_page, as_text
from contextrender_bridge.audit.run_costs import cache_rewrites_of, costs_by_model
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import process_environment
from contextrender_bridge.evaluation.compactions import MAX_MEASURED
from contextrender_bridge.evaluation.tables import console
from contextrender_bridge.evaluation.workers import show_waiting
from contextrender_bridge.printing import add_count, add_json, print_json, write_file

DEFAULT_CALLS = 600
READERS: Mapping[str, Callable[[Path, AuditInput], None]] = {
    "claude": read_claude,
    "codex": read_codex,
    "hermes": read_hermes,
    "openclaw": read_openclaw,
    "opencode": read_opencode,
    "pi": read_pi,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender audit`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a file, or a folder")
    parser.add_argument("--agent", choices=list(READERS), help="only this agent's sessions")
    add_count(
        parser,
        "--limit",
        "replay the newest runs, up to about N model calls (%(default)s)",
        DEFAULT_CALLS,
    )
    add_count(
        parser,
        "--compactions",
        "measure a random sample of N of the agents' compactions (%(default)s)",
        MAX_MEASURED,
    )
    add_count(parser, "--workers", "number of processes (one per processor)")
    parser.add_argument(
        "--html", type=Path, metavar="OUT", help="also write the report to OUT as an HTML page"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="OUT",
        help="only write the runs to OUT, as `contextrender eval` reads them",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read the runs, add up their costs, replay the newest ones and print the report.

    With --runs, only write the runs to a file.
    """
    with show_waiting("Reading sessions"):
        audit_input = read_input(args.files, args.agent)
    runs = audit_input.runs
    if not runs:
        agents = [args.agent] if args.agent else READERS
        places = ", ".join(map(str, args.files or [homes()[agent][0] for agent in agents]))
        raise CommandError(" ".join([f"there are no runs in {places}.", *audit_input.sentences]))
    if args.runs:
        # `run_of` returns None for a run with invalid messages, which cannot be replayed.
        lines = [json.dumps(run.to_json()) for run in map(run_of, runs) if run]
        write_file("".join(f"{line}\n" for line in lines), args.runs)
        return 0
    replay_report = replay(runs, max(args.limit, 1), args.workers, args.compactions)
    audit = AuditReport(audit_input, costs_by_model(runs), cache_rewrites_of(runs), replay_report)
    if args.html:
        write_file(as_page(audit), args.html)
    if args.json:
        return print_json(as_json(audit))
    out = console()
    for part in as_text(audit):
        out.print(part, soft_wrap=isinstance(part, str), markup=False)
    return 0


def read_input(files: Sequence[Path], agent: str | None = None) -> AuditInput:
    """Read the sessions in `files`; without files, those of an agent, or all, on this machine."""
    audit_input = AuditInput()
    for path in files:
        read_files(path, audit_input)
    for name, folders in () if files else homes().items():
        for folder in folders if agent in (None, name) else ():
            READERS[name](folder, audit_input)
    return audit_input.merge_copies()


def homes() -> dict[str, list[Path]]:
    """Map the name of each agent to the folders where it keeps its sessions.

    An agent's environment variable, such as `CODEX_HOME`, replaces its usual folders. The folders
    need not exist.
    """
    home = Path.home()
    variables = process_environment()

    def folders(name: str, *usual: Path) -> list[Path]:
        """Return the folder in the environment variable `name`, or the usual folders."""
        override = variables.get(name)
        return [Path(override).expanduser()] if override else list(usual)

    config = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    data = Path(variables.get("XDG_DATA_HOME") or home / ".local" / "share")
    openclaws_earlier_folders = (home / ".clawdbot", home / ".moltbot")
    return {
        "claude": folders("CLAUDE_CONFIG_DIR", home / ".claude", config / "claude"),
        "codex": folders("CODEX_HOME", home / ".codex"),
        "hermes": folders("HERMES_HOME", home / ".hermes"),
        "openclaw": folders("OPENCLAW_STATE_DIR", home / ".openclaw", *openclaws_earlier_folders),
        "opencode": [data / "opencode"],
        "pi": folders("PI_CODING_AGENT_DIR", home / ".pi" / "agent"),
    }
