"""The baselines in which a history summary replaces the history's beginning (docs/policies.md).

They are for replays alone: no server renders with them. Each part of a prompt has a limit, in
percent of the budget:

- `compact`: a summary (50), the first user message (cut to 20), and all messages that the summary
  does not cover
- `acon`: a summary (40), the first user message (cut to 20), and the last turn or, if it exceeds
  25, a summary of it
- `recency_summary`: a summary (20), user and assistant texts (40), and as many of the newest
  results as fit the rest

When the summary and the messages after it together exceed the budget, the model writes a new
summary of both. If a history exceeds half the model's window, the model summarises it in up to six
pieces.

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
from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.pin_newest import with_required_results
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

LAST_TURN_SHARE: Final = 0.25
"""The largest share of the budget that the last turn beside a summary may have."""
SUMMARY_SHARE: Final = 0.2
"""The largest share of the budget for the summary of `recency_summary`."""
RECENT_SHARE: Final = 0.5
"""The share for the results of recent turns, of the tokens that remain beside text and summary."""


def new_summaries(baseline: str) -> Summaries:
    """Return an object for the summaries of a new history, which has none yet.

    The model that the settings name will write them, for `acon` by a guideline. Raise
    InvalidRequest if no model is set, or if the file with the guideline is bad.
    """
    settings = current_settings()
    if not settings.model:
        raise InvalidRequest(f"policy {baseline} needs a model: set CONTEXTRENDER_MODEL")
    guideline = load_guideline(settings.acon_guideline) if baseline == "acon" else ""
    return Summaries(settings.model, write_summary, guideline)


def baseline_policy(name: str, summaries: Summaries, agent_defaults: bool = False) -> Policy:
    """Return a baseline of `BASELINES` by its name, as a policy for one history.

    The policy reads and extends `summaries`, the summaries of this history. With `agent_defaults`,
    it shows the newest results even if the summary replaces one of them.
    """

    def select(context: CallContext) -> Selection:
        """Select with a summary. With `agent_defaults`, always show the newest results, too."""
        selection = select_with_summary(context, BASELINES[name], summaries)
        # If the summary replaces a result, `excerpts` maps this result to the summary.
        replaces_newest = any(
            substitute.kind == SUMMARY_KIND and result in context.newest
            for result, substitute in selection.excerpts.items()
        )
        if agent_defaults and replaces_newest:
            return with_required_results(context, selection, force_newest=True)
        return selection

    return Policy(select)


def _before_last_turn(context: CallContext) -> int:
    """Return the number of messages before the last turn.

    If the last turn exceeds `LAST_TURN_SHARE` of the budget, return the number of all messages.
    """
    history = context.history
    last_turn = history.last_assistant
    if last_turn <= 0:
        return len(history)
    turn_tokens = history.totals[-1] - history.totals[last_turn - 1]
    return last_turn if turn_tokens <= LAST_TURN_SHARE * context.budget else len(history)


def _before_recent_turns(context: CallContext) -> int:
    """Return the number of messages before the recent turns. The summary has to cover them.

    The free tokens are those that text and summary leave of the budget. The recent turns are the
    newest ones whose results together fit into `RECENT_SHARE` of the free tokens. The last turn
    alone may take all of them. A turn whose text is dropped is not recent, and neither are the
    turns before it.
    """
    history, results = context.history, context.history.results
    text = text_within_share(context)
    summary_tokens = int(SUMMARY_SHARE * context.budget) + call_reserve(context)
    free_tokens = context.budget - context.tokens_of(text) - summary_tokens
    # Go back turn by turn until the results no longer fit.
    turn_of = np.array(results.turn, dtype=np.int64)
    has_call = np.asarray(results.call_event, dtype=np.int64) != NO_CALL
    first_recent_message, recent_tokens = len(history), 0
    for turn in reversed(np.unique(turn_of[has_call]).tolist()):
        turn_results = np.flatnonzero(has_call & (turn_of == turn)).tolist()
        recent_tokens += int(context.costs[turn_results].sum())
        is_last_turn = turn == history.assistants
        limit = free_tokens if is_last_turn else RECENT_SHARE * free_tokens
        if recent_tokens > limit:
            break
        first_recent_message = results.call_message[turn_results[0]]
    return max(first_recent_message, dropped_until(context, text))


BASELINES: Final[Mapping[str, SummaryMethod]] = {
    # A model's notes on the first messages, and all messages after them.
    "compact": SummaryMethod(share=0.5, text_of=text_after, boundary=lambda v: len(v.history)),
    # The newest turns' results, a model's notes on the earlier turns, and the text.
    "recency_summary": SummaryMethod(
        share=SUMMARY_SHARE, text_of=text_of_all, boundary=_before_recent_turns
    ),
    # A model's summary by a guideline, and the last turn if it is small.
    "acon": SummaryMethod(share=0.4, text_of=text_after, boundary=_before_last_turn),
}
"""The baselines by name."""
