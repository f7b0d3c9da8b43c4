"""The graph of reuse in formats that other programs read. Values are text, whatever they hold."""

import json
from collections.abc import Callable, Iterator
from html import escape

from contextrender_bridge.base.wire import Json
from contextrender_bridge.printing import printable

STEP, LANE, LEFT, TOP = 46, 34, 150, 40
COLOURS = ("#2f6fed", "#0d8a5f", "#8757e0", "#c2570c", "#b3173a", "#0e7490", "#7c6f00", "#a21caf")


def as_json(view: Json) -> str:
    """The report itself."""
    return json.dumps(view, ensure_ascii=False, indent=1) + "\n"


def as_dot(view: Json) -> str:
    """For Graphviz: time runs to the right, an edge is as wide as its number of values."""
    lines = ["digraph reuse {", "  rankdir=LR;", '  node [fontname="sans-serif", fontsize=10];']
    for number, label in _results(view):
        lines.append(f"  r{number} [shape=box, style=rounded, label={_quoted(label)}];")
    lines += [
        f"  o{one['event']} [shape=plaintext, label={_quoted(_operation(one))}];"
        for one in view["operations"]
    ]
    for edge in view["edges"]:
        width = min(6.0, 0.5 + edge["count"] ** 0.5)
        label = _quoted(_values(edge))
        arrow = f"r{edge['result']} -> o{edge['operation']}"
        lines.append(f"  {arrow} [penwidth={width:.1f}, fontsize=8, label={label}];")
    return "\n".join([*lines, "}", ""])


def as_mermaid(view: Json) -> str:
    """For Mermaid, as in Markdown."""
    lines = ["graph LR"]
    lines += [f'  r{number}["{_entities(label)}"]' for number, label in _results(view)]
    lines += [f'  o{one["event"]}(["{_entities(_operation(one))}"])' for one in view["operations"]]
    for edge in view["edges"]:
        arrow = "==>" if edge["count"] > 1 else "-->"
        label = _entities(_values(edge))
        lines.append(f'  r{edge["result"]} {arrow}|"{label}"| o{edge["operation"]}')
    return "\n".join([*lines, ""])


def as_svg(view: Json) -> str:
    """A picture: a column for each turn, a lane for each tool, the values as tooltips."""
    results, tools = view["results"], view["results"]["tools"]
    lanes = {name: index for index, name in enumerate([*tools, ""])}
    for one in view["operations"]:
        lanes.setdefault(one["name"], len(lanes))
    shown = [number for number, _ in _results(view)]
    turns = sorted(
        {results["turns"][number] for number in shown} | {o["turn"] for o in view["operations"]}
    )
    column = {turn: index for index, turn in enumerate(turns)}
    places: dict[str, tuple[float, float]] = {}
    crowd: dict[tuple[int, str], int] = {}

    def place(key: str, turn: int, name: str, shift: float) -> tuple[float, float]:
        beside = crowd[turn, name] = crowd.get((turn, name), -1) + 1
        x = LEFT + column[turn] * STEP + shift + beside * 7
        places[key] = (x, TOP + lanes[name] * LANE + beside * 5)
        return places[key]

    width, height = LEFT + len(turns) * STEP + 40, TOP + len(lanes) * LANE + 10
    body: list[str] = []
    for name, lane in lanes.items():
        label = escape(printable(name or "text", 22))
        body.append(f'<text x="8" y="{TOP + lane * LANE + 4}">{label}</text>')
    body += [
        f'<text x="{LEFT + column[turn] * STEP}" y="18" class="t">{turn}</text>'
        for turn in turns[:: max(1, len(turns) // 40)]
    ]
    for number, label in _results(view):
        name = tools[results["names"][number]]
        x, y = place(f"r{number}", results["turns"][number], name, 18)
        body.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{_colour(lanes[name])}">'
            f"<title>{escape(label)}</title></circle>"
        )
    for one in view["operations"]:
        x, y = place(f"o{one['event']}", one["turn"], one["name"], 0)
        body.append(
            f'<rect x="{x - 4:g}" y="{y - 4:g}" width="8" height="8" fill="none"'
            f' stroke="{_colour(lanes[one["name"]])}" stroke-width="2">'
            f"<title>{escape(_operation(one))}</title></rect>"
        )
    for edge in view["edges"]:
        (x, y), (to, end) = places[f"r{edge['result']}"], places[f"o{edge['operation']}"]
        bend = (to - x) * 0.45
        colour = _colour(lanes[tools[results["names"][edge["result"]]]])
        body.insert(
            0,
            f'<path d="M{x:g} {y:g}C{x + bend:g} {y:g} {to - bend:g} {end:g} {to:g} {end:g}"'
            f' stroke="{colour}" stroke-width="{min(6.0, 0.5 + edge["count"] ** 0.5):.1f}">'
            f"<title>{escape(_values(edge))}</title></path>",
        )
    style = (
        "text{font:11px sans-serif;fill:#445}.t{fill:#889;text-anchor:middle}"
        "path{fill:none;opacity:.55}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}"><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(body)}</svg>\n'
    )


FORMATS: dict[str, Callable[[Json], str]] = {
    "dot": as_dot,
    "mermaid": as_mermaid,
    "json": as_json,
    "svg": as_svg,
}


def _results(view: Json) -> Iterator[tuple[int, str]]:
    """Number and label of every result that was drawn on."""
    results = view["results"]
    for number in sorted({edge["result"] for edge in view["edges"]}):
        name = results["tools"][results["names"][number]]
        told = f"turn {results['turns'][number]}, {results['tokens'][number]} tokens"
        yield number, f"#{results['positions'][number]} {printable(name, 40)} ({told})"


def _operation(one: Json) -> str:
    return f"turn {one['turn']}: {printable(one['name'], 40) or 'text'}"


def _values(edge: Json) -> str:
    first = ", ".join(printable(value, 40) for value in edge["values"][:2])
    more = edge["count"] - min(2, len(edge["values"]))
    return f"{first} +{more}" if more else first


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _entities(text: str) -> str:
    """What Mermaid would read as syntax or markup, as its character codes."""
    return "".join(
        char if char.isalnum() or char in " _.,:+-/()" else f"#{ord(char)};" for char in text
    )


def _colour(lane: int) -> str:
    return COLOURS[lane % len(COLOURS)]
