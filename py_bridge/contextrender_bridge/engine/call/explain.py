"""The reasons why a rendering shows or omits each result, and the uses in its reuse score.

Long because a result's row needs the decision on it, which needs the whole rendering.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import Final

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.render_call import RenderedCall, sent_in_full
from contextrender_bridge.engine.call.result_page import LastRebuild
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.parameters import NO_PINS
from contextrender_bridge.engine.plan.selection import Selection

TOO_LARGE: Final = "larger than all that was free for results"
NO_ROOM: Final = "no room left after others were taken"
RESTORED: Final = "restored behind result {position}, as an answer needed it after it was dropped"
KEPT_FREE: Final = "it would have fitted: the policy left that room free"
TURN_DROPPED: Final = "its whole turn left to make room for later text"
"""Reasons for an omission."""


@dataclass(frozen=True)
class AskedCall:
    """A call that a request asks for, as it was recorded or by today's rules.

    `record` is None if the call was not recorded, or if the request tries other settings.
    `selection` is the selection of the call's prompt, and `rendered` explains it. `rendered` is a
    rendering by today's rules, which may have another selection. If the recorded calls explain the
    selection already, `rendered` is made from it.
    """

    settings: RenderSettings
    record: CallRecord | None
    selection: Selection
    rendered: RenderedCall

    @property
    def history(self) -> History:
        """The history before the call."""
        return self.rendered.context.history

    @property
    def sent_full(self) -> bool:
        """True if the model received the full history."""
        return self.record is not None and self.record.sent_full

    @cached_property
    def differing_results(self) -> set[int]:
        """The results that the call and its rendering by today's rules show in different ways."""
        return self.selection.differing_results(self.rendered.selection)

    @cached_property
    def prompt(self) -> RenderedCall:
        """The messages that the model received."""
        if self.sent_full:
            return sent_in_full(self.rendered)
        return RenderedCall(self.rendered.context, self.selection)


@dataclass(slots=True, frozen=True)
class ResultDecision:
    """The display of a result in a prompt, and the reason for it.

    - `display` is "complete", "excerpt", "compaction" or "omitted".
    - `order` is the result's position in the order of selection, from 1. It is None if the result
      was not selected.
    - If the result did not fit, `selected_count` is the number of results that had been selected
      when it stopped fitting. `remaining_tokens` is the number of tokens that were free then.
    - If the policy gives a reason of its own for an omission, `selected_count` is None, and
      `remaining_tokens` is the number of tokens that the whole selection left unused.
    """

    display: str
    order: int | None
    reason: str
    remaining_tokens: int | None = None
    selected_count: int | None = None


@dataclass(frozen=True)
class ResultDecisions:
    """The decisions on the results of one rendering."""

    rendered: RenderedCall

    def of(self, result: int) -> ResultDecision:
        """Return the decision on the result with this number.

        The policy's own reason is preferred, if the policy gives reasons.
        """
        selection = self.rendered.selection
        order = self._orders.get(result)
        policy_reason = selection.reasons.get(result)
        substitute = selection.excerpts.get(result)
        if substitute is not None:  # the result is shown as an excerpt or a summary
            limit = selection.limits.get(result, substitute.tokens)
            size_reason = f"larger than the budget, so {substitute.kind} of at most {limit} tokens"
            return ResultDecision(substitute.kind, order, policy_reason or size_reason)
        if order is None:
            return self._omitted(result, policy_reason)
        if self.rendered.context.fits and not selection.reasons:
            return ResultDecision("complete", order, "the whole history fits")
        return ResultDecision("complete", order, policy_reason or "selected")

    def _omitted(self, result: int, policy_reason: str | None) -> ResultDecision:
        """Return the decision on a result that the prompt does not show at its own position.

        The display is "omitted", or "excerpt" if a part of the result is shown after a later one.
        """
        context = self.rendered.context
        results = context.history.results
        # Reasons that do not depend on the order of selection: no policy may show a result without
        # a call, its turn was dropped, or a part of it is shown after a host.
        if results.call_event[result] == NO_CALL:
            return ResultDecision("omitted", None, "no call asked for it")
        if not context.eligible[result] and results.turn[result] in self._dropped_turns:
            return ResultDecision("omitted", None, TURN_DROPPED)
        if result in self._host_of:
            position = results.message[self._host_of[result]]
            return ResultDecision("excerpt", None, RESTORED.format(position=position))
        # The policy omitted it for a reason of its own.
        free_tokens = self._free_tokens_after
        if policy_reason:
            rank_note = self.rebuild.rank_note(result) if self.rebuild else ""
            return ResultDecision("omitted", None, policy_reason + rank_note, free_tokens[-1])
        # The policy selected other results until this one did not fit. Find when that was:
        # `free_tokens[n]` is the number of tokens that were free after n selected results.
        cost = int(context.costs[result])
        last_count = len(free_tokens) - 1
        if cost <= free_tokens[last_count]:  # it fits even after all selected results
            return ResultDecision("omitted", None, KEPT_FREE, free_tokens[last_count], last_count)
        # The free tokens only fall, so bisection finds the first count of selected results after
        # which this result no longer fits.
        count = bisect_left(free_tokens, True, key=lambda tokens: cost > tokens)
        reason = NO_ROOM if count else TOO_LARGE
        return ResultDecision("omitted", None, reason, free_tokens[count], count)

    @cached_property
    def rebuild(self) -> LastRebuild | None:
        """The last rebuild of the prompt, if the policy rebuilds prompts."""
        return LastRebuild(self.rendered) if self.rendered.selection.rebuilt else None

    @cached_property
    def _host_of(self) -> dict[int, int]:
        """The host of each restored result: the result after which a part of it is shown.

        If a restored result has several hosts, it is the last one.
        """
        restored = self.rendered.selection.restored
        return {result: host for host, text in restored.items() for result in text.results}

    @cached_property
    def _dropped_turns(self) -> frozenset[int]:
        """The turns of which all texts were dropped."""
        return frozenset(self.rendered.selection.text.dropped_turns)

    @cached_property
    def _orders(self) -> dict[int, int]:
        """The position of each shown result in the order of selection, from 1."""
        shown_order = self.rendered.selection.shown_order
        return {result: order for order, result in enumerate(shown_order, 1)}

    @cached_property
    def _free_tokens_after(self) -> list[int]:
        """The tokens that are free for results after 0, 1, 2 and more selected results.

        For a substitute, its limit is subtracted, because the policy reserves so many tokens before
        the substitute is written.
        """
        selection, context = self.rendered.selection, self.rendered.context
        call_tokens = context.history.results.call_tokens
        free_tokens = [self.rendered.budget - self.rendered.text_tokens]
        for result in selection.shown_order:
            cost = int(context.costs[result])
            if result in selection.excerpts:
                excerpt_tokens = selection.excerpts[result].tokens
                cost = call_tokens[result] + selection.limits.get(result, excerpt_tokens)
            free_tokens.append(free_tokens[-1] - cost)
        return free_tokens


@dataclass(slots=True, frozen=True)
class UseRow:
    """An operation (a text or tool call of the agent) that used the result.

    `event` is the operation's event number, `position` the position of its message. `result_counts`
    maps each value that it repeats to the number of results that contain the value.
    """

    event: int
    position: int
    turn: int
    result_counts: dict[str, int]


@dataclass(slots=True, frozen=True)
class ResultRow:
    """One result: its scores (None if the policy has none), its sizes and the decision on it.

    `position` is the position of the result's message, `event` its event number. `tokens` is its
    size, and `cost` its size together with its call. `edited_at` is the turn in which the result's
    file was edited first after the result, or None.
    """

    position: int
    event: int
    turn: int
    age: int
    reuse: float
    relevance: float | None
    usefulness: float | None
    score: float | None
    tokens: int
    cost: int
    decision: ResultDecision
    pinned: bool
    edited_at: int | None
    uses: list[UseRow]


def explain_results(
    rendered: RenderedCall,
    numbers: Sequence[int] | None = None,
    decisions: Mapping[int, ResultDecision] | None = None,
) -> list[ResultRow]:
    """Return a row for each of these results, or for every result in transcript order.

    `numbers` has the numbers of the results, or is None. `decisions` maps them to the recorded
    decisions. If it is None, the decisions are computed from the rendering.
    """
    context, scores = rendered.context, rendered.selection.scores
    history, results = context.history, context.history.results
    if numbers is None:
        numbers = range(context.result_count)
    # Read once what the rows of all results need.
    uses_by_result = _use_rows(history, set(numbers))
    first_edits = history.files.first_edits(numbers, results.call_message, len(history.roles))
    has_pins = context.pins != NO_PINS
    decisions_now = ResultDecisions(rendered)
    rebuild = decisions_now.rebuild if decisions is None else None
    rows: list[ResultRow] = []
    for result in numbers:
        # The scores: of the policy, or else of the last rebuild.
        relevance = usefulness = score = None
        if scores:
            relevance = None if scores.relevance is None else float(scores.relevance[result])
            usefulness, score = float(scores.usefulness[result]), float(scores.score[result])
        elif rebuild:  # a cache-aware policy scores results only when it rebuilds the prompt
            score = rebuild.score(result)
        tool = history.names.get(results.event[result], "")
        uses = uses_by_result.get(result, [])
        rows.append(
            ResultRow(
                position=results.message[result],
                event=results.event[result],
                turn=results.turn[result],
                age=int(context.ages[result]),
                reuse=_reuse(uses),
                relevance=relevance,
                usefulness=usefulness,
                score=score,
                tokens=results.tokens[result],
                cost=int(context.costs[result]),
                decision=decisions_now.of(result) if decisions is None else decisions[result],
                pinned=has_pins and context.pins.names(tool, results.call_id[result]),
                edited_at=history.turns[first_edits[result]] if result in first_edits else None,
                uses=uses,
            )
        )
    return rows


def _use_rows(history: History, numbers: Set[int]) -> dict[int, list[UseRow]]:
    """Return the uses of these results, by result."""
    uses = [use for use in history.reuse.uses if use.result in numbers]
    result_counts = history.reuse.result_counts({value for use in uses for value in use.values})
    rows: dict[int, list[UseRow]] = {}
    for use in uses:
        position = bisect_right(history.first_events, use.operation) - 1
        counts = {value: result_counts[value] for value in use.values if value in result_counts}
        rows.setdefault(use.result, []).append(
            UseRow(use.operation, position, history.turns[position], counts)
        )
    return rows


def _reuse(uses: Sequence[UseRow]) -> float:
    """Return the reuse score of a result with these uses, as `ReuseIndex.scores` computes it.

    Each use of a value adds 1/n, where n is the number of results that contain the value.
    """
    use_counts: Counter[str] = Counter()
    result_counts: dict[str, int] = {}
    for use in uses:
        use_counts.update(use.result_counts.keys())
        result_counts |= use.result_counts
    return fsum(use_counts[value] / n for value, n in result_counts.items())


RULES_CHANGED: Final = "so it was when the call was made; today"
SENT_FULL: Final = "the whole history was sent; rendered,"
"""The beginnings of the reason if a result's recorded display differs from today's."""


def with_recorded_displays(
    call: AskedCall, numbers: Sequence[int], rows: Sequence[ResultRow]
) -> list[ResultRow]:
    """Return the rows with the recorded display of each result instead of today's, if they differ.

    `rows` are the rows of the results `numbers` by today's rules. The reason of a changed row says
    what today's rules would show. If the model received the full history, it says what a rendering
    would have shown.
    """
    reason_start = SENT_FULL if call.sent_full else RULES_CHANGED
    return [
        _recorded_row(row, number, call.selection, reason_start)
        if number in call.differing_results
        else row
        for number, row in zip(numbers, rows, strict=True)
    ]


def differing_sentence(count: int) -> str:
    """Return the warning that today's rules would show `count` results of a call differently."""
    results = "1 result" if count == 1 else f"{count:,} results"
    return f"Today's rules would show {results} otherwise than when this call was made."


def _recorded_row(
    row: ResultRow, number: int, recorded_selection: Selection, reason_start: str
) -> ResultRow:
    """Return the row of a result with its recorded display.

    The reason is `reason_start`, and then how today's rules would show the result, and why.
    """
    today = row.decision
    if number in recorded_selection.partial:
        display = "excerpt"
    else:
        display = "complete" if number in recorded_selection.complete else "omitted"
    reason = f"{reason_start} it would be {today.display}: {today.reason}"
    return replace(row, decision=ResultDecision(display, None, reason))
