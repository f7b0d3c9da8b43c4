"""A call's results sorted by a column, and their ranks at the last rebuild."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.plan.call_context import tracker
from contextrender_bridge.engine.plan.scores import Scores, scores_of
from contextrender_bridge.engine.plan.selection import Selection

COLUMNS: Final[tuple[str, ...]] = (
    *("position", "name", "age", "reuse", "relevance", "usefulness", "score", "tokens", "order"),
)
"""The columns that results can be sorted by. Results without a value are last, the newest first."""


def sorted_results(
    rendered: RenderedCall, selection: Selection, column: str, *, descending: bool
) -> list[int]:
    """Return the numbers of all results, sorted by a column.

    `selection` is the recorded selection of the call, and `rendered` its rendering by today's
    rules, from which the values of the columns are read.
    """
    if column == "order":
        return _in_selection_order(rendered, selection, descending=descending)
    numbers = list(range(rendered.context.result_count))
    keys = _column(rendered, column)
    if keys is None:  # no result has a value: the newest come first
        return numbers[::-1]
    return sorted(numbers, key=keys.__getitem__, reverse=descending)


def _in_selection_order(
    rendered: RenderedCall, selection: Selection, *, descending: bool
) -> list[int]:
    """Return all results in the order in which they were selected, or in the reverse order.

    Only the rendering has this order, and it may differ from the recorded `selection`. The order is
    therefore known only for results that both show in the same way. After these come the other
    results of the recorded prompt, and then the omitted results. Both groups are always in the
    order from the newest to the oldest.
    """
    differing_results = selection.differing_results(rendered.selection)
    ordered = [r for r in rendered.selection.shown_order if r not in differing_results]
    unordered = {*selection.complete, *selection.partial}.difference(ordered)
    omitted = set(range(rendered.context.result_count)).difference(ordered, unordered)
    newest_first = [*sorted(unordered, reverse=True), *sorted(omitted, reverse=True)]
    return [*(ordered[::-1] if descending else ordered), *newest_first]


def _column(rendered: RenderedCall, name: str) -> Sequence[Any] | None:
    """Return the value of each result in the column `name`, by which results are sorted.

    Return None if the policy has no such values.
    """
    context, scores = rendered.context, rendered.selection.scores
    results = context.history.results
    if name == "name":
        return [context.history.names.get(event, "") for event in results.event]
    # A cache-aware policy scores results only when it rebuilds the prompt. So compute the scores at
    # the last rebuild, at this call or before. Without a rebuild, there are no scores.
    if name == "score" and rendered.selection.rebuilt:
        rebuild = LastRebuild(rendered)
        return [rebuild.score(result) or 0.0 for result in range(len(results))]
    # Other policies return the scores with the selection, unless they select without scores.
    if name in ("relevance", "usefulness", "score"):
        values = getattr(scores, name) if scores else None
        return None if values is None else list(values)
    columns: dict[str, Sequence[Any]] = {
        "position": results.message,
        "age": context.ages.tolist(),
        "reuse": context.reuse.tolist(),
        "tokens": results.tokens,
    }
    return columns[name]


ORDINAL_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True)
class LastRebuild:
    """The call at which this rendering's prompt was last rebuilt."""

    rendered: RenderedCall

    @cached_property
    def scores(self) -> Scores:
        """The scores of the results at the time of the rebuild (docs/policies.md, Result score)."""
        context, rebuilt = self.rendered.context, self.rendered.selection.rebuilt
        return scores_of(replace(context, message_count=rebuilt, track=tracker(context)))

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The rank by score, from 1, of each result that existed at the rebuild and has a call."""
        has_call = self.scores.context.has_call
        candidates = (result for result in self.scores.best_first if has_call[result])
        return {result: rank for rank, result in enumerate(candidates, 1)}

    @cached_property
    def complete_count(self) -> int:
        """The number of ranked results that the prompt shows complete."""
        return sum(result in self.ranks for result in self.rendered.selection.complete)

    def score(self, result: int) -> float | None:
        """Return a result's score at that rebuild, or None if it has no rank."""
        return float(self.scores.result_scores[result]) if result in self.ranks else None

    def rank_note(self, result: int) -> str:
        """Return the rank of an omitted result in words, or "" if it has no rank.

        The words are appended to the reason why the result is omitted.
        """
        rank = self.ranks.get(result)
        if rank is None:
            return ""
        if rank <= self.complete_count:  # some result with a lower score is complete
            return f": ranked {ordinal(rank)}, but too large, or in the part that stayed the same"
        return f": ranked {ordinal(rank)}, {self.complete_count} fitted"


def ordinal(number: int) -> str:
    """Return a number as 1st, 2nd, 3rd, 4th, 11th and so on."""
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else ORDINAL_ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"
