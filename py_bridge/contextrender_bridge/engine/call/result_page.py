"""A page of a call's results, sorted as the reader asked, and how they ranked when the prompt was
rebuilt."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.plan.call_context import CallContext, tracker
from contextrender_bridge.engine.plan.density import Density, density_of
from contextrender_bridge.engine.plan.selection import Selection

COLUMNS: Final = (
    *("position", "name", "age", "reuse", "relevance", "usefulness", "score", "tokens", "order"),
)
"""What results can be ordered by; those without a value come last either way, the newest first."""


@dataclass(slots=True, frozen=True)
class Page:
    """At most `rows` results from number `offset` on, ordered by a column; without one, all.

    Without `sort` they are in transcript order.
    """

    offset: int = 0
    rows: int | None = None
    sort: str = ""
    descending: bool = False

    def __post_init__(self) -> None:
        if self.offset < 0 or (self.rows is not None and self.rows < 0):
            raise InvalidRequest("offset and rows must be 0 or more")
        if self.sort not in ("", *COLUMNS):
            raise InvalidRequest(f"sort must be one of {', '.join(COLUMNS)}")

    def of(self, rendered: RenderedCall, shown: Selection) -> list[int]:
        """Return the numbers of the results on the page; `shown` is what the call showed."""
        ordered = self._ordered(rendered, shown)
        stop = None if self.rows is None else self.offset + self.rows
        return list(ordered[self.offset : stop])

    def _ordered(self, rendered: RenderedCall, shown: Selection) -> Sequence[int]:
        everything = range(len(rendered.view.history.results))
        if not self.sort:
            return everything
        if self.sort == "order":
            return _as_taken(rendered, shown, self.descending)
        keys = _keys(rendered, self.sort)
        if keys is None:
            return everything[::-1]
        return sorted(everything, key=keys.__getitem__, reverse=self.descending)


def _as_taken(rendered: RenderedCall, shown: Selection, descending: bool) -> list[int]:
    """Return those shown in the order taken, then the others that are shown, then the rest."""
    differing = shown.differing_results(rendered.selection)
    taken = [result for result in rendered.selection.shown_order if result not in differing]
    others = sorted({*shown.complete, *shown.partial}.difference(taken), reverse=True)
    known = {*taken, *others}
    last = range(len(rendered.view.history.results) - 1, -1, -1)
    return [*(taken[::-1] if descending else taken), *others, *(r for r in last if r not in known)]


def _keys(rendered: RenderedCall, by: str) -> Sequence[Any] | None:
    """A sortable value of each result; None where the policy has none."""
    view, scores = rendered.view, rendered.selection.scores
    results = view.history.results
    if by == "name":
        return [view.history.names.get(event, "") for event in results.event]
    if by == "score" and rendered.selection.rebuilt:
        rebuilt = LastRebuild(rendered)
        return [rebuilt.score(result) or 0.0 for result in range(len(results))]
    if by in ("relevance", "usefulness", "score"):
        found = getattr(scores, by) if scores else None
        return None if found is None else list(found)
    known: dict[str, Sequence[Any]] = {
        "position": results.message,
        "age": view.ages.tolist(),
        "reuse": view.reuse.tolist(),
        "tokens": results.tokens,
    }
    return known[by]


ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True)
class LastRebuild:
    """The call at which the prompt of this rendering was last rebuilt."""

    rendered: RenderedCall

    @cached_property
    def density(self) -> Density:
        """S of the results there were."""
        view = self.rendered.view
        return density_of(CallContext(view, self.rendered.selection.rebuilt, tracker(view)))

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The place by S of every result that competed, from 1."""
        asked = self.density.moment.asked
        competed = (result for result in self.density.order if asked[result])
        return {result: place for place, result in enumerate(competed, 1)}

    @cached_property
    def kept(self) -> int:
        """How many of them were complete in the prompt then, and still are."""
        return sum(result in self.ranks for result in self.rendered.selection.complete)

    def score(self, result: int) -> float | None:
        """S of a result then; None for one that came later."""
        return float(self.density.scores[result]) if result in self.ranks else None

    def said(self, result: int) -> str:
        """How a result that was left out had ranked; empty for one that came later."""
        rank = self.ranks.get(result)
        if rank is None:
            return ""
        if rank <= self.kept:
            return f": ranked {ordinal(rank)}, but too large, or before what was kept as it stood"
        return f": ranked {ordinal(rank)}, {self.kept} fitted"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th ..."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ENDINGS.get(last, 'th')}"
