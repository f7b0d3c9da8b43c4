"""Print a graph, for Graphviz, of which operations used which results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import ServiceClient, add_session_options
from contextrender_bridge.printing import add_json, print_json, printable

MAX_EDGE_VALUES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender graph`."""
    add_session_options(parser)
    parser.add_argument("--tool", metavar="NAME", help="only results of this tool")
    parser.add_argument("--turn", type=int, metavar="N", help="only what happened before this turn")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the graph, or the reply as JSON."""
    with ServiceClient() as service:
        view = service.ask("reuse_graph", session=args.session, branch=args.branch, turn=args.turn)
    view = _only_tool(view, args.tool)
    if args.json:
        return print_json(view)
    sys.stdout.write(as_dot(view))
    return 0


def as_dot(view: Json) -> str:
    """Return the graph in Graphviz' language. An edge's width grows with its number of values."""
    lines = ["digraph reuse {", "  rankdir=LR;", '  node [fontname="sans-serif", fontsize=10];']
    for number, label in _used_results(view):
        lines.append(f"  r{number} [shape=box, style=rounded, label={_quoted(label)}];")
    for operation in view["operations"]:
        label = f"turn {operation['turn']}: {printable(operation['name'], 40) or 'text'}"
        lines.append(f"  o{operation['event']} [shape=plaintext, label={_quoted(label)}];")
    for edge in view["edges"]:
        width = min(6.0, 0.5 + edge["count"] ** 0.5)  # in points
        arrow = f"r{edge['result']} -> o{edge['operation']}"
        lines.append(
            f"  {arrow} [penwidth={width:.1f}, fontsize=8, label={_quoted(_values(edge))}];"
        )
    return "\n".join([*lines, "}", ""])


def _used_results(view: Json) -> Iterator[tuple[int, str]]:
    """Yield the number and the label of each result that was used."""
    results = view["results"]
    for number in sorted({edge["result"] for edge in view["edges"]}):
        name = results["tools"][results["names"][number]]
        details = f"turn {results['turns'][number]}, {results['tokens'][number]} tokens"
        yield number, f"#{results['positions'][number]} {printable(name, 40)} ({details})"


def _values(edge: Json) -> str:
    """Return an edge's first values and the number of its other values, as text."""
    values = [printable(value, 40) for value in edge["values"][:MAX_EDGE_VALUES]]
    hidden_count = edge["count"] - len(values)
    return ", ".join(values) + (f" +{hidden_count}" if hidden_count else "")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _only_tool(view: Json, tool: str | None) -> Json:
    """Return the view with only one tool's results. Raise CommandError if it has no result."""
    if tool is None:
        return view
    results = view["results"]
    if tool not in results["tools"]:
        tools = ", ".join(sorted(results["tools"])) or "none"
        raise CommandError(f"the tool {tool!r} has no result; the tools with results are {tools}.")
    tool_number = results["tools"].index(tool)
    edges = [edge for edge in view["edges"] if results["names"][edge["result"]] == tool_number]
    used_operations = {edge["operation"] for edge in edges}
    operations = [
        operation for operation in view["operations"] if operation["event"] in used_operations
    ]
    return {**view, "edges": edges, "operations": operations}
