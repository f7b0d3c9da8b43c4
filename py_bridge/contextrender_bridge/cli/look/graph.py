"""Draw which operations used which results, as dot, mermaid, json or svg."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.look.asking import Service, add_session, add_watch
from contextrender_bridge.cli.look.drawings import FORMATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender graph`."""
    add_session(parser)
    parser.add_argument(
        "--format", choices=list(FORMATS), default="dot", help="output format (%(default)s)"
    )
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="as --format json"
    )
    parser.add_argument("--tool", metavar="NAME", help="only results of this tool")
    parser.add_argument("--turn", type=int, metavar="N", help="as it was before this turn")
    parser.add_argument("--output", type=Path, metavar="FILE", help="output file (standard output)")
    add_watch(parser)


def run(args: argparse.Namespace) -> int:
    """Write the drawing; with --watch, whenever the session has gone on."""
    with Service() as service:
        written = ""
        while True:
            drawn = draw(service, args)
            if drawn != written:
                _write(drawn, args.output)
                written = drawn
            if not args.watch:
                return 0
            time.sleep(2.0)


def draw(service: Service, args: argparse.Namespace) -> str:
    """The drawing of the graph in the format asked for."""
    view = service.ask("reuse_graph", session=args.session, branch=args.branch, turn=args.turn)
    return FORMATS[args.format](_only(view, args.tool))


def _only(view: Json, tool: str | None) -> Json:
    """The view without results of other tools. Raises CommandError for one that is not there."""
    if tool is None:
        return view
    results = view["results"]
    if tool not in results["tools"]:
        known = ", ".join(sorted(results["tools"])) or "none"
        raise CommandError(f"no result is of the tool {tool!r}; the tools are {known}.")
    edges = [e for e in view["edges"] if results["tools"][results["names"][e["result"]]] == tool]
    used = {edge["operation"] for edge in edges}
    operations = [one for one in view["operations"] if one["event"] in used]
    return {**view, "edges": edges, "operations": operations}


def _write(drawn: str, output: Path | None) -> None:
    """To a file or standard output. Raises CommandError when it cannot."""
    if output is None:
        sys.stdout.write(drawn)
        sys.stdout.flush()
        return
    try:
        output.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {output}: {error.strerror}.") from None
