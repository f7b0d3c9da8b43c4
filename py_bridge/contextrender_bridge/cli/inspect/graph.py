"""Draw which operations used which results, for Graphviz."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.asking import Service, add_session
from contextrender_bridge.printing import add_json, print_json, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender graph`."""
    add_session(parser)
    parser.add_argument("--tool", metavar="NAME", help="only results of this tool")
    parser.add_argument("--turn", type=int, metavar="N", help="as it was before this turn")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the drawing, or the report itself."""
    with Service() as service:
        view = service.ask("reuse_graph", session=args.session, branch=args.branch, turn=args.turn)
    view = _only(view, args.tool)
    if args.json:
        return print_json(view)
    sys.stdout.write(as_dot(view))
    return 0


def as_dot(view: Json) -> str:
    """Time runs to the right, an edge is as wide as its number of values."""
    lines = ["digraph reuse {", "  rankdir=LR;", '  node [fontname="sans-serif", fontsize=10];']
    for number, label in _results(view):
        lines.append(f"  r{number} [shape=box, style=rounded, label={_quoted(label)}];")
    for one in view["operations"]:
        label = f"turn {one['turn']}: {printable(one['name'], 40) or 'text'}"
        lines.append(f"  o{one['event']} [shape=plaintext, label={_quoted(label)}];")
    for edge in view["edges"]:
        width = min(6.0, 0.5 + edge["count"] ** 0.5)
        arrow = f"r{edge['result']} -> o{edge['operation']}"
        lines.append(
            f"  {arrow} [penwidth={width:.1f}, fontsize=8, label={_quoted(_values(edge))}];"
        )
    return "\n".join([*lines, "}", ""])


def _results(view: Json) -> Iterator[tuple[int, str]]:
    """Number and label of every result that was drawn on."""
    results = view["results"]
    for number in sorted({edge["result"] for edge in view["edges"]}):
        name = results["tools"][results["names"][number]]
        told = f"turn {results['turns'][number]}, {results['tokens'][number]} tokens"
        yield number, f"#{results['positions'][number]} {printable(name, 40)} ({told})"


def _values(edge: Json) -> str:
    first = ", ".join(printable(value, 40) for value in edge["values"][:2])
    more = edge["count"] - min(2, len(edge["values"]))
    return f"{first} +{more}" if more else first


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


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
