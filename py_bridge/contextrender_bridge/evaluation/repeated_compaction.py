"""Compacts a session repeatedly, each time to the text that `POST /v1/compact` returns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from contextrender_bridge.base.compaction_size import DEFAULT_TOKENS
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.text.percentage import percent
from contextrender_bridge.evaluation.compaction_methods import CompactedHistory
from contextrender_bridge.evaluation.runs import Run, compactions_of
from contextrender_bridge.evaluation.workers import run_tasks

WINDOW: Final = 200_000
FULL_SHARE: Final = 0.8
"""The share of the window above which an agent compacts."""


@dataclass(frozen=True, slots=True)
class RepeatedCompaction:
    """A compaction by `POST /v1/compact`: its turn, and the context's tokens before and after."""

    turn: int
    tokens_before: int
    tokens_after: int

    @property
    def share_freed(self) -> float:
        """The share of the context that the compaction freed."""
        return 1 - self.tokens_after / self.tokens_before


def repeat_compactions(
    messages: Sequence[Json], model: str, window: int = WINDOW, size: int = DEFAULT_TOKENS
) -> Iterator[RepeatedCompaction]:
    """Replay a session with a window of `window` tokens, and yield its compactions.

    The context has the text of the last compaction, of at most `size` tokens, and the messages
    since. Before each model call, it is compacted if it exceeds `FULL_SHARE` of the window.
    """
    history = CompactedHistory([], model)
    context_tokens = turn = recorded_count = 0
    for position, message in enumerate(messages):
        if message["role"] == "assistant":
            turn += 1
            if context_tokens > FULL_SHARE * window:
                # A compaction is made from the full history, not from the last compaction's text.
                history.extend(messages[recorded_count:position])
                recorded_count = position
                text = history.rendered_results(size, "")  # without a summary by the agent
                text_tokens = history.counter.message({"role": "user", "content": text})
                yield RepeatedCompaction(turn, context_tokens, text_tokens)
                context_tokens = text_tokens
        context_tokens += history.counter.message(message)


def repeat_in_runs(
    runs: Sequence[Run], workers: int | None = None
) -> list[list[RepeatedCompaction]]:
    """Return, for every session in these runs, the compactions that our replay would make.

    The full history of a session is replayed, without the agent's own summaries. A progress bar is
    shown.
    """
    # A run that continues another one is a part of the session of that run.
    sessions = {run.id: (run.messages, run.model) for run in runs if not run.continues}
    for compaction in compactions_of(runs):
        # The full history up to the next compaction, without the summary. It replaces the shorter
        # histories of the session's earlier compactions.
        messages = [*compaction.before, *compaction.after]
        sessions[compaction.session] = messages, compaction.model
    tasks = list(sessions.values())
    sizes = [len(messages) for messages, _ in tasks]
    return run_tasks("Compacting again, messages", _list_compactions, tasks, sizes, workers)


def _list_compactions(messages: Sequence[Json], model: str) -> list[RepeatedCompaction]:
    """Return the compactions as a list, because a worker process cannot return an iterator."""
    return list(repeat_compactions(messages, model))


def repeated_sentence(sessions: Sequence[Sequence[RepeatedCompaction]]) -> str:
    """Return a sentence on all compactions: their number, what they freed, and their distance."""
    compactions = [compaction for session in sessions for compaction in session]
    if not compactions:
        return f"No session fills a window of {WINDOW:,} tokens."
    shares_freed = sorted(compaction.share_freed for compaction in compactions)
    turn_gaps = [
        later.turn - earlier.turn for session in sessions for earlier, later in pairwise(session)
    ]
    gap_note = f"; at least {min(turn_gaps)} turns between two" if turn_gaps else ""
    return (
        f"Repeated compaction to {DEFAULT_TOKENS:,} tokens in a window of {WINDOW:,}: "
        f"{len(compactions)} compactions, each freed {percent(shares_freed[0])} to "
        f"{percent(shares_freed[-1])} of the context{gap_note}."
    )
