"""Print a graph, for Graphviz, of which operations used which results."""

import argparse
import sys
from collections.abc import Iterator

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.common import ServiceClient, add_session_options
from contextrender_bridge.printing import add_json, print_json, printable

MAX_EDGE_VALUES = 2
NO_MESSAGE = -1
"""The source message of a value that comes from a result and not from a message."""


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
    """Return the graph in Graphviz' language, from a reply of `reuse_graph`.

    Nodes are results, operations that used them, and user or system messages. An edge goes from the
    source of values to the operation that used them, and is wider for more values.
    """
    lines = ["digraph reuse {", "  rankdir=LR;", '  node [fontname="sans-serif", fontsize=10];']
    for number, label in _used_results(view):
        lines.append(f"  r{number} [shape=box, style=rounded, label={_quoted(label)}];")
    for operation in view["operations"]:
        label = f"turn {operation['turn']}: {printable(operation['name'], 40) or 'text'}"
        lines.append(f"  o{operation['event']} [shape=plaintext, label={_quoted(label)}];")
    for message in view["messages"]:
        label = f"{message['role']} message #{message['position']}"
        lines.append(f"  m{message['position']} [shape=note, label={_quoted(label)}];")
    for source, edge in _edges_by_source(view):
        width = min(6.0, 0.5 + edge["count"] ** 0.5)  # in points
        arrow = f"{source} -> o{edge['operation']}"
        lines.append(
            f"  {arrow} [penwidth={width:.1f}, fontsize=8, label={_quoted(_values(edge))}];"
        )
    return "\n".join([*lines, "}", ""])


def _used_results(view: Json) -> Iterator[tuple[int, str]]:
    """Yield the number and the label of each result to draw.

    These are the results with an edge whose values come from no user or system message.
    """
    results = view["results"]
    edges = [edge for edge in view["edges"] if NO_MESSAGE in edge["source_messages"]]
    for number in sorted({edge["result"] for edge in edges}):
        name = results["tools"][results["names"][number]]
        details = f"turn {results['turns'][number]}, {results['tokens'][number]} tokens"
        yield number, f"#{results['positions'][number]} {printable(name, 40)} ({details})"


def _edges_by_source(view: Json) -> Iterator[tuple[str, Json]]:
    """Yield the edges to draw, each with the name of the node that it starts at: `r3` or `m0`.

    An edge of the reply starts at a result. But if a user or system message had a value before the
    result, the value comes from the message. So each edge of the reply is divided into one from the
    result and one from each of these messages. The reply lists only some values, and counts the
    others: they are added to the last of the edges.
    """
    for edge in view["edges"]:
        values_by_message: dict[int, list[str]] = {}
        for value, message in zip(edge["values"], edge["source_messages"], strict=True):
            values_by_message.setdefault(message, []).append(value)
        *_, last_message = values_by_message  # the last key
        for message, values in values_by_message.items():
            source = f"r{edge['result']}" if message == NO_MESSAGE else f"m{message}"
            count = len(values)
            if message == last_message:
                count += edge["count"] - len(edge["values"])
            yield source, {**edge, "values": values, "count": count}


def _values(edge: Json) -> str:
    """Return an edge's first values and the number of its other values, as text."""
    values = [printable(value, 40) for value in edge["values"][:MAX_EDGE_VALUES]]
    hidden_count = edge["count"] - len(values)
    return ", ".join(values) + (f" +{hidden_count}" if hidden_count else "")


def _quoted(text: str) -> str:
    """Return a text as a string of Graphviz' language, in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _only_tool(view: Json, tool: str | None) -> Json:
    """Return the view with only the edges from one tool's results, and only the nodes they need.

    If `tool` is None, return the view unchanged. Raise CommandError if the tool has no result.
    """
    if tool is None:
        return view
    results = view["results"]
    if tool not in results["tools"]:
        tools = ", ".join(sorted(results["tools"])) or "none"
        raise CommandError(f"the tool {tool!r} has no result; the tools with results are {tools}.")
    tool_number = results["tools"].index(tool)
    edges = [edge for edge in view["edges"] if results["names"][edge["result"]] == tool_number]
    # Keep the operations and messages at the ends of these edges.
    used_operations = {edge["operation"] for edge in edges}
    operations = [
        operation for operation in view["operations"] if operation["event"] in used_operations
    ]
    positions = {position for edge in edges for position in edge["source_messages"]}
    messages = [message for message in view["messages"] if message["position"] in positions]
    return {**view, "edges": edges, "operations": operations, "messages": messages}
