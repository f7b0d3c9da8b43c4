"""The curve of a replay, as SVG. Importing this needs matplotlib, the `eval` extra."""

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
    """Cost by a provider's `rule` against what is in view, for a page: one line a policy, through
    its budgets.
    """
    known = {score.case: bootstrap.estimates(n) for n, score in enumerate(runs[0].cases)}
    cases = sorted(known, key=lambda case: case.budget)
    loop = any(each[f"{rule}_loop"].value is not None for each in known.values())
    costing = f"{rule}_loop" if loop else f"{rule}_calls"
    lines: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        cost, seen = (known[case][name].value for name in (costing, "turns_with_all_values"))
        line = lines.setdefault(case.name, [])
        if cost is not None and seen is not None:
            line.append((100 * cost, 100 * seen))
    budgets = " to ".join(dict.fromkeys((cases[0].size, cases[-1].size)))
    caption = f"Cost against what is in view, budgets {budgets}"
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(7.6, 4.2), layout="constrained")
        axes = canvas.add_subplot()
        for i, (name, points) in enumerate(lines.items()):
            colour = "black" if name == "full" else COLOURS[2 * i % 20 + (i >= 10)]
            costs, shares = [cost for cost, _ in points], [seen for _, seen in points]
            axes.plot(costs, shares, label=name, color=colour, marker=MARKERS[i % len(MARKERS)])
        axes.axvline(100, color="grey", linestyle=":")
        axes.set_xlabel(f"{BY_NAME[costing].title}, %")
        axes.set_ylabel("turns with all values in view, %")
        axes.set_ylim(max(0, 10 * math.floor(axes.get_ylim()[0] / 10)), 102)
        axes.set_title(caption, fontsize=10, loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        out = io.BytesIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(out, format="svg", metadata=metadata)
    # Without prolog, and nothing that names a host.
    svg = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue().decode(), flags=re.DOTALL)
    svg = svg[svg.index("<svg") :]
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
