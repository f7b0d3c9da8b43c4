"""Draws the curve of a replay as SVG. It needs matplotlib, which the `eval` extra installs."""

import io
import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.figures import BY_NAME
from contextrender_bridge.evaluation.scores import RunScore

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


def curve(runs: Sequence[RunScore], bootstrap: Bootstrap, rule: str) -> str:
    """Return an HTML figure of the cost by a provider's `rule` against the visible values.

    Each policy has a line through its budgets.
    """
    figures_by_case = {score.case: bootstrap.estimates(n) for n, score in enumerate(runs[0].cases)}
    cases = sorted(figures_by_case, key=lambda case: case.budget)
    loop = any(figures[f"{rule}_loop"].value is not None for figures in figures_by_case.values())
    cost_figure = f"{rule}_loop" if loop else f"{rule}_calls"
    lines: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        cost, share = (
            figures_by_case[case][name].value for name in (cost_figure, "turns_with_all_values")
        )
        line = lines.setdefault(case.name, [])
        if cost is not None and share is not None:
            line.append((100 * cost, 100 * share))
    budgets = " to ".join(dict.fromkeys((cases[0].size, cases[-1].size)))
    caption = f"Cost against visible values, budgets {budgets}"
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(7.6, 4.2), layout="constrained")
        axes = canvas.add_subplot()
        for i, (name, points) in enumerate(lines.items()):
            colour = "black" if name == "full" else COLOURS[2 * i % 20 + (i >= 10)]
            costs, shares = [cost for cost, _ in points], [share for _, share in points]
            axes.plot(costs, shares, label=name, color=colour, marker=MARKERS[i % len(MARKERS)])
        axes.axvline(100, color="grey", linestyle=":")
        axes.set_xlabel(f"{BY_NAME[cost_figure].title}, %")
        axes.set_ylabel("turns with all values visible, %")
        axes.set_ylim(max(0, 10 * math.floor(axes.get_ylim()[0] / 10)), 102)
        axes.set_title(caption, fontsize=10, loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        out = io.BytesIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(out, format="svg", metadata=metadata)
    # The page is offline: remove the prolog and the metadata, which name hosts.
    svg = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue().decode(), flags=re.DOTALL)
    svg = svg[svg.index("<svg") :]
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
