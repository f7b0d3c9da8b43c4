"""What happened to each result in one rendering, and why results were left out."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from engine.call.rebuilt import Rebuilt
from engine.call.render_call import Rendered
from engine.history.history import NO_CALL

TOO_LARGE: Final = "larger than all that was free for results"
NO_ROOM: Final = "no room left after others were taken"
BACK: Final = "needed again after it had left: it stands behind result {position}"
KEPT_FREE: Final = "it would have fitted: the policy left that room free"


@dataclass(slots=True, frozen=True)
class Verdict:
    """`shown` is "complete", "excerpt", "compaction", "summary" or "omitted", `reason` says why.

    `order` is its place among those taken. Of a result that found no room, `left` are the tokens
    that were left when it first no longer fitted, and `after` how many had been taken by then:
    those of order 1 to `after`. Where a policy has a reason of its own, `left` is what was left in
    the end.
    """

    shown: str
    order: int | None
    reason: str
    left: int | None = None
    after: int | None = None


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on the results of one rendering."""

    rendered: Rendered

    def of(self, result: int) -> Verdict:
        """The verdict on a result, by number."""
        plan = self.rendered.plan
        order = self._places.get(result)
        own_reason = plan.reasons.get(result)
        if result in plan.replaced:
            kind = self.rendered.kinds[result]
            limit = plan.replaced[result]
            reason = own_reason or f"larger than the budget, so {kind} of at most {limit} tokens"
            return Verdict(kind, order, reason)
        if order is not None:
            fits = self.rendered.view.fits and not self.rendered.plan.reasons
            reason = "the whole history fits" if fits else own_reason or "selected"
            return Verdict("complete", order, reason)
        return self._omitted(result, own_reason)

    def _omitted(self, result: int, own_reason: str | None) -> Verdict:
        view, retained = self.rendered.view, self.rendered.plan.retained
        if view.history.results.call_event[result] == NO_CALL:
            return Verdict("omitted", None, "no call asked for it")
        if not view.eligible[result] and view.history.results.turn[result] in retained.left_turns:
            return Verdict("omitted", None, "its whole turn left to make room for later text")
        if result in self._behind:
            position = view.history.results.message[self._behind[result]]
            return Verdict("excerpt", None, BACK.format(position=position))
        if own_reason:
            ranked = self.rebuilt.said(result) if self.rebuilt else ""
            return Verdict("omitted", None, own_reason + ranked, self._free - self._used[-1])
        cost = int(view.costs[result])
        after = bisect_left(self._used, True, key=lambda used: cost > self._free - used)
        if after == len(self._used):
            return Verdict("omitted", None, KEPT_FREE, self._free - self._used[-1], after - 1)
        reason = NO_ROOM if after else TOO_LARGE
        return Verdict("omitted", None, reason, self._free - self._used[after], after)

    @cached_property
    def rebuilt(self) -> Rebuilt | None:
        """What competed when the prompt was rebuilt, where the policy does that."""
        return Rebuilt(self.rendered) if self.rendered.plan.since else None

    @cached_property
    def _behind(self) -> dict[int, int]:
        """By result that came back: the last one behind which it stands."""
        added = self.rendered.plan.added
        return {result: host for host, made in added.items() for result in made.results}

    @cached_property
    def _places(self) -> dict[int, int]:
        return {result: place for place, result in enumerate(self.rendered.plan.shown_order, 1)}

    @cached_property
    def _free(self) -> int:
        """Tokens that retained text left for results."""
        return self.rendered.budget - self.rendered.plan.retained.tokens

    @cached_property
    def _used(self) -> Sequence[int]:
        """Tokens taken by the first 0, 1, 2 ... of those shown, in the order taken."""
        plan, view = self.rendered.plan, self.rendered.view
        calls = view.history.results.call_tokens
        sizes = (
            calls[result] + plan.replaced[result]
            if result in plan.replaced
            else int(view.costs[result])
            for result in plan.shown_order
        )
        return list(accumulate(sizes, initial=0))
