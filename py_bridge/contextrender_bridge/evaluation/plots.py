"""Draws the curve of a replay as SVG. It needs matplotlib, which the `eval` extra installs."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.figures import BY_NAME

STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "contextrender",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
COLOURS: Final = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]
MARKERS: Final = "osD^vP*Xph<>"


def _colour(policy: str, number: int) -> Any:
    """Return the colour of a policy's line; black for the full history.

    `number` counts the lines. `COLOURS` has a light colour after each dark one. All dark colours
    are used before the first light one.
    """
    if policy == "full":
        return "black"
    dark, light = COLOURS[::2], COLOURS[1::2]
    return (dark + light)[number % len(COLOURS)]


def curve(bootstrap: Bootstrap, rule: str) -> str:
    """Return an HTML figure of cost against the share of steps with all values.

    Each policy has a line with a point for each budget. `rule` is one of `billing.RULES`. The cost
    is the closed loop's if it was replayed, otherwise the recorded calls'.
    """
    cases = bootstrap.cases
    figures_by_case = {case: bootstrap.estimates(index) for index, case in enumerate(cases)}
    # A policy's line goes from its smallest budget to its largest.
    cases.sort(key=lambda case: case.budget)
    # Use the cost of the closed loop if any case has it.
    loop_costs = [figures[f"{rule}_loop"].value for figures in figures_by_case.values()]
    has_loop = any(cost is not None for cost in loop_costs)
    cost_figure = f"{rule}_loop" if has_loop else f"{rule}_calls"
    # A case without one of the two figures has no point.
    points_by_policy: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        cost = figures_by_case[case][cost_figure].value
        share = figures_by_case[case]["turns_with_all_values"].value
        points = points_by_policy.setdefault(case.name, [])
        if cost is not None and share is not None:
            points.append((100 * cost, 100 * share))
    smallest, largest = cases[0].size, cases[-1].size
    budgets = smallest if smallest == largest else f"{smallest} to {largest}"
    caption = f"Cost against visible values, budgets {budgets}"
    svg = _draw_lines(points_by_policy, f"{BY_NAME[cost_figure].title}, %", caption)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _draw_lines(
    points_by_policy: Mapping[str, Sequence[tuple[float, float]]], cost_title: str, caption: str
) -> str:
    """Return an SVG element with a line for each policy, which goes through its points.

    A point has a cost and a share of turns, both in percent.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(7.6, 4.2), layout="constrained")
        axes = canvas.add_subplot()
        for number, (name, points) in enumerate(points_by_policy.items()):
            costs, shares = [cost for cost, _ in points], [share for _, share in points]
            marker = MARKERS[number % len(MARKERS)]
            axes.plot(costs, shares, label=name, color=_colour(name, number), marker=marker)
        # The full history's cost is 100%.
        axes.axvline(100, color="grey", linestyle=":")
        axes.set_xlabel(cost_title)
        axes.set_ylabel("turns with all values visible, %")
        axes.set_ylim(max(0, 10 * math.floor(axes.get_ylim()[0] / 10)), 102)
        axes.set_title(caption, fontsize=10, loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        # Without these metadata the same figures give the same file.
        out = io.BytesIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(out, format="svg", metadata=metadata)
    # The page is offline: remove the prolog and the metadata, which name hosts.
    svg = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue().decode(), flags=re.DOTALL)
    return svg[svg.index("<svg") :]
