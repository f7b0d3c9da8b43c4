"""The baselines in which a history summary replaces the history's beginning (docs/policies.md).

They are for replays alone: no server renders with them. When the summary and the messages after it
together exceed the budget, the model writes a new summary of both. If a history exceeds half the
model's window, the model summarises it in up to six pieces.

The prompt shows the summary as the text of the latest tool result that the summary covers. If the
call of that result has more tokens than 10% of the budget, the prompt uses an earlier result or, if
none has a smaller call, the latest covered user message.

Each call to the model is tried twice, for at most 60 seconds each. If both tries fail, the call
counts as one with a warning, and the prompt shows the previous summary. If there is none, the
policy `prune` selects the prompt.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.plan.call_context import next_call
from contextrender_bridge.engine.plan.pin_newest import with_required_results
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.policies import Policy
from contextrender_bridge.evaluation.baselines.summaries import (
    Summaries,
    load_guideline,
    write_summary,
)
from contextrender_bridge.evaluation.baselines.summary_selection import (
    SUMMARY_KIND,
    SummaryMethod,
    call_reserve,
    dropped_until,
    select_with_summary,
    text_after,
    text_of_all,
    text_within_share,
)


def new_summaries(baseline: str) -> Summaries:
    """Return the summaries of a new history, written by the model that the settings name.

    Raise InvalidRequest if there is no model, or if the file with the guideline is bad.
    """
    settings = current_settings()
    if not settings.model:
        raise InvalidRequest(f"policy {baseline} needs a model: set CONTEXTRENDER_MODEL")
    guideline = load_guideline(settings.acon_guideline) if baseline == "acon" else ""
    return Summaries(settings.model, write_summary, guideline)


def baseline_policy(name: str, summaries: Summaries, agent_defaults: bool = False) -> Policy:
    """Return the baseline of that name of `BASELINES`, with the summaries of one history.

    With `agent_defaults`, a newest result that the summary replaces is shown nevertheless.
    """

    def select(view: PolicyInput) -> Selection:
        """Return the selection with the latest summary."""
        selection = select_with_summary(view, BASELINES[name], summaries)
        context = next_call(view)
        replaces_newest = any(
            substitute.kind == SUMMARY_KIND and result in context.newest
            for result, substitute in selection.excerpts.items()
        )
        if agent_defaults and replaces_newest:
            return with_required_results(context, selection, force_newest=True)
        return selection

    return Policy(select)


def _all_messages(view: PolicyInput) -> int:
    """Return the number of all messages."""
    return len(view.history)


LAST_TURN_SHARE: Final = 0.25
"""The largest share of the budget that the last turn beside a summary may have."""


def _before_last_turn(view: PolicyInput) -> int:
    """Return the number of messages before the last turn, or of all if that turn is large."""
    history = view.history
    last_turn = history.last_assistant
    if last_turn <= 0:
        return len(history)
    turn_tokens = history.totals[-1] - history.totals[last_turn - 1]
    return last_turn if turn_tokens <= LAST_TURN_SHARE * view.budget else len(history)


SUMMARY_SHARE: Final = 0.2
RECENT_SHARE: Final = 0.5
"""The share, of the tokens that text and summary leave, for the results of recent turns."""


def _before_recent_turns(view: PolicyInput) -> int:
    """Return the number of messages before the newest turns whose results together fit a share.

    The share is `RECENT_SHARE` of the free tokens. The results of the last turn may take them all.
    Messages of dropped turns are always among those before.
    """
    history, results = view.history, view.history.results
    text = text_within_share(view)
    summary_tokens = int(SUMMARY_SHARE * view.budget) + call_reserve(view)
    free_tokens = view.budget - view.tokens_of(text) - summary_tokens
    turns = np.array(results.turn, dtype=np.int64)
    has_call = np.asarray(results.call_event, dtype=np.int64) != NO_CALL
    boundary, recent_tokens = len(history), 0
    for turn in reversed(np.unique(turns[has_call]).tolist()):
        turn_results = np.flatnonzero(has_call & (turns == turn)).tolist()
        recent_tokens += int(view.costs[turn_results].sum())
        limit = free_tokens if turn == history.assistants else RECENT_SHARE * free_tokens
        if recent_tokens > limit:
            break
        boundary = results.call_message[turn_results[0]]
    return max(boundary, dropped_until(view, text))


BASELINES: Final[Mapping[str, SummaryMethod]] = {
    # A model's notes on the first messages, and all messages after them.
    "compact": SummaryMethod(share=0.5, text_of=text_after, boundary=_all_messages),
    # The newest turns' results, a model's notes on the earlier turns, and the text.
    "recency_summary": SummaryMethod(
        share=SUMMARY_SHARE, text_of=text_of_all, boundary=_before_recent_turns
    ),
    # A model's summary by a guideline, and the last turn if it is small.
    "acon": SummaryMethod(share=0.4, text_of=text_after, boundary=_before_last_turn),
}
"""The baselines by name."""
