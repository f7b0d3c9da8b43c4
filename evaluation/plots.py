"""Plots of a replay, as SVG. Importing this needs matplotlib, the `eval` extra."""

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from engine.parameters import AUTO
from evaluation.bootstrap import Bootstrap, Estimate
from evaluation.cases import Case, size_of
from evaluation.figures import AGES, BY_NAME
from evaluation.scores import RunScore

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
FULL: Final = "full"
ALL_VALUES: Final = "turns_with_all_values"
MARKERS: Final = "osD^vP*Xph<>"


@dataclass(slots=True, frozen=True)
class Plot:
    """A drawn figure, and what it shows."""

    caption: str
    canvas: Canvas

    def inline_svg(self) -> str:
        """The plot as it stands inside a page: without prolog, and nothing that names a host."""
        out = io.BytesIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with mpl.rc_context(STYLE):
            self.canvas.savefig(out, format="svg", metadata=metadata)
        svg = out.getvalue().decode()
        svg = svg[svg.index("<svg") :]
        return re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)


class Plotter:
    """Draws the plots of a replay; a policy has the same colour in all of them."""

    def __init__(
        self, runs: Sequence[RunScore], bootstrap: Bootstrap, rule: str = "openai"
    ) -> None:
        """Plots these runs, with the intervals of `bootstrap` and bills by a provider's `rule`."""
        self._rule = rule
        self._cases: list[Case] = [score.case for score in runs[0].cases]
        self._estimates = [bootstrap.estimates(index) for index in range(len(self._cases))]
        names = list(dict.fromkeys(case.name for case in self._cases))
        self._looks = {
            name: {"color": COLOURS[2 * i % 20 + (i >= 10)], "marker": MARKERS[i % len(MARKERS)]}
            for i, name in enumerate(names)
        }
        if FULL in self._looks:
            self._looks[FULL]["color"] = "black"

    def all(self) -> list[Plot]:
        """Every plot there is something to draw of."""
        budgets = list(dict.fromkeys(case.budget for case in self._cases))
        made = [self._curve(), *(self._by_age(budget) for budget in budgets)]
        if len(budgets) > 1:
            made.append(self._by_budget())
        return made

    def _curve(self) -> Plot:
        """Cost against what is in view: one line a policy, through its budgets."""
        loop = any(known[f"{self._rule}_loop"].value is not None for known in self._estimates)
        costing = f"{self._rule}_loop" if loop else f"{self._rule}_calls"

        def draw(axes: Axes) -> None:
            for name in self._looks:
                own = [(i, case) for i, case in enumerate(self._cases) if case.name == name]
                own.sort(key=lambda each: each[1].budget)
                points = [
                    (self._estimates[i][costing].value, self._estimates[i][ALL_VALUES].value)
                    for i, _ in own
                ]
                there = [(cost, seen) for cost, seen in points if None not in (cost, seen)]
                axes.plot(
                    [100 * (cost or 0) for cost, _ in there],
                    [100 * (seen or 0) for _, seen in there],
                    label=name,
                    **self._looks[name],
                )
            axes.axvline(100, color="grey", linestyle=":")
            axes.set_xlabel(f"{BY_NAME[costing].title}, %")
            _shares(axes, "turns with all values in view, %")

        sizes = [case.size for case in sorted(self._cases, key=lambda case: case.budget)]
        budgets = " to ".join(dict.fromkeys((sizes[0], sizes[-1])))
        return _plot(f"Cost against what is in view, budgets {budgets}", draw)

    def _by_age(self, budget: int) -> Plot:
        def draw(axes: Axes) -> None:
            for index, case in self._at(budget):
                known = [self._estimates[index][f"result_recall {age}"] for age in AGES]
                self._line(axes, case, range(len(AGES)), known)
            axes.set_xticks(range(len(AGES)), AGES)
            axes.set_xlabel("age of the result, in turns")
            _shares(axes, "result recall, %")

        caption = f"Result recall by age, budget {size_of(budget)}"
        return _plot(caption, draw)

    def _by_budget(self) -> Plot:
        budgets = sorted({case.budget for case in self._cases} - {AUTO})

        def draw(axes: Axes) -> None:
            for name in self._looks:
                own = [
                    (i, case)
                    for i, case in enumerate(self._cases)
                    if case.name == name and case.budget != AUTO
                ]
                own.sort(key=lambda each: each[1].budget)
                if not own:
                    continue
                known = [self._estimates[index]["result_recall"] for index, _ in own]
                self._line(axes, own[0][1], [case.budget for _, case in own], known)
            axes.set_xscale("log")
            axes.set_xticks(budgets, [f"{budget / 1000:g}K" for budget in budgets])
            axes.minorticks_off()
            axes.set_xlabel("budget, tokens")
            _shares(axes, "result recall, %")

        return _plot("Result recall against the budget", draw)

    def _at(self, budget: int) -> list[tuple[int, Case]]:
        return [(i, case) for i, case in enumerate(self._cases) if case.budget == budget]

    def _line(
        self, axes: Axes, case: Case, places: Sequence[float], known: Sequence[Estimate]
    ) -> None:
        there = [
            (at, each) for at, each in zip(places, known, strict=True) if each.value is not None
        ]
        axes.errorbar(
            [at for at, _ in there],
            [100 * (each.value or 0) for _, each in there],
            yerr=_bars([each for _, each in there]),
            capsize=2,
            elinewidth=0.8,
            label=case.name,
            **self._looks[case.name],
        )


def _plot(caption: str, draw: Callable[[Axes], None]) -> Plot:
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(7.6, 4.2), layout="constrained")
        axes = canvas.add_subplot()
        draw(axes)
        axes.set_title(caption, fontsize=10, loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    return Plot(caption, canvas)


def _bars(known: Sequence[Estimate]) -> list[list[float]]:
    below, above = [], []
    for each in known:
        value = each.value or 0.0
        below.append(100 * max(value - (each.low or 0.0), 0.0))
        above.append(100 * max((each.high or 0.0) - value, 0.0))
    return [below, above]


def _shares(axes: Axes, label: str) -> None:
    axes.set_ylabel(label)
    low, _ = axes.get_ylim()
    axes.set_ylim(max(0, 10 * math.floor(low / 10)), 102)
