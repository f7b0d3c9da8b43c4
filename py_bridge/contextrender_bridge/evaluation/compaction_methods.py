"""A comparison of the contexts that an agent can have after a compaction, at equal tokens.

docs/evaluation.md says what is compared.

Each method turns the history before a compaction into a context of a given size. A later step is
complete if the context has every value that the step used and that only results from before the
compaction have. Results that the agent read again do not count. A session is also compacted
repeatedly, each time to the text that `POST /v1/compact` returns. Long because it has the methods,
their scores and the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from contextrender_bridge.base.compaction_mark import CompactedBranch
from contextrender_bridge.base.compaction_size import DEFAULT_TOKENS
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call.compaction_choice import (
    MessageText,
    TextChoice,
    budgeted_text_tokens,
    choose_budget,
    choose_texts,
    choose_within,
    read_texts,
)
from contextrender_bridge.engine.call.compaction_text import (
    CompactedResult,
    read_results,
    write_compaction,
)
from contextrender_bridge.engine.call.render_call import render_call
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.engine.parameters import Parameters
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay.recall_measures import unseen_tokens
from contextrender_bridge.engine.text.percentage import percent
from contextrender_bridge.engine.text.tokens import content_text, counter_for
from contextrender_bridge.evaluation.bootstrap import Estimate, draw_samples, span, sum_groups
from contextrender_bridge.evaluation.compactions import used_values
from contextrender_bridge.evaluation.progress import finish_steps
from contextrender_bridge.evaluation.runs import Run, RunCompaction, compactions_of
from contextrender_bridge.evaluation.tables import Rows, percent_or_dash
from contextrender_bridge.evaluation.workers import run_tasks
from contextrender_bridge.printing import count_of

POLICY: Final = policy_named("contextrender_excerpts")
OWN_SIZE: Final = 0
"""Stands for the size of the agent's own context after the compaction."""
SIZES: Final = (OWN_SIZE, 8_000, 16_000, 32_000, 48_000)
AGENT: Final = "the agent's own context"
WITH_SUMMARY: Final = "the agent's summary and ContextRender's results"
WINDOW: Final = 200_000
FULL_SHARE: Final = 0.8
"""The share of the window above which an agent compacts."""


class CompactedHistory:
    """The history before a compaction, from which methods make contexts."""

    def __init__(self, messages: Sequence[Json], model: str) -> None:
        """Record the messages as the service does. `model` decides how tokens are counted."""
        self.counter = counter_for(model or None)
        self.messages: list[Json] = []
        self.history = History()
        self.extend(messages)

    def extend(self, messages: Sequence[Json]) -> None:
        """Record more messages."""
        self.history.extend(messages, self.counter)
        self.messages += messages

    def texts_only(self, size: int, _: str) -> str:
        """Return a context of at most `size` tokens, without results.

        It has the user's first message and the newest texts that fit. No summary is used (`_`).
        """
        texts = self._texts()
        first = [text for text in texts if text.role == "user"][:1]
        newest = [text for text in reversed(texts) if text not in first]
        chosen_texts, tokens = choose_within([*first, *newest], size, self.counter, cuts=True)
        return self._write(TextChoice(chosen_texts, tokens), [], size)

    def newest_results(self, size: int, _: str) -> str:
        """Return a context of at most `size` tokens: texts, and the newest results that fit.

        The texts are chosen as for `POST /v1/compact`. Omitted results have an empty text. No
        summary is used (`_`).
        """
        texts = choose_texts(self._texts(), size, self.counter, has_summary=False)
        all_results = Selection(
            len(self.messages), complete=tuple(range(len(self.history.results)))
        )
        free_tokens = size - texts.tokens
        newest_first: list[CompactedResult] = []
        for result in reversed(read_results(self.history, self.messages, all_results)):
            if result.tokens <= free_tokens:
                free_tokens -= result.tokens
                newest_first.append(result)
            else:
                newest_first.append(replace(result, text="", is_complete=False))  # omitted
        return self._write(texts, newest_first[::-1], size)

    def rendered_results(self, size: int, summary: str) -> str:
        """Return the text that `POST /v1/compact` returns: summary, texts and results.

        The texts of the user and the assistant are chosen first, and results fill the rest of
        `size`. To select the results, a prompt is rendered. Its budget is larger than the rest,
        because the prompt also contains all texts that were not chosen.
        """
        counter, history = self.counter, self.history
        # Choose the texts, and the budget with which results fill the rest.
        texts = choose_texts(self._texts(), size, counter, has_summary=bool(summary))
        budget = choose_budget(
            size,
            shown_text_tokens=texts.tokens + counter.text(summary),
            budgeted_text_tokens=budgeted_text_tokens(history),
            results=len(history.results),
        )
        rendered = render_call(
            history,
            budget=budget,
            policy=POLICY,
            parameters=Parameters(),
            agent_defaults=True,
            counter=counter,
            embedder=NoEmbedder,
            texts_of=lambda positions: [
                content_text(self.messages[position].get("content")) for position in positions
            ],
        )
        # Of the rendered prompt, only the results are used.
        results = read_results(history, self.messages, rendered.selection)
        return self._write(texts, results, size, summary)

    def _texts(self) -> list[MessageText]:
        """Return the texts of the user and the assistant in the history, in order."""
        return read_texts(self.history, self.messages)

    def _write(
        self, texts: TextChoice, results: Sequence[CompactedResult], size: int, summary: str = ""
    ) -> str:
        """Return the text of a compaction of all messages, with the given texts and results.

        The text has at most `size` tokens. `summary` is the agent's own summary, or empty.
        """
        branch = CompactedBranch(0, len(self.messages), self.history.digest)  # the main branch
        return write_compaction(branch, texts, results, size, self.counter, summary).text


METHODS: Final[Mapping[str, Callable[[CompactedHistory, int, str], str]]] = {
    "all texts, no results": CompactedHistory.texts_only,
    "texts and the newest results": CompactedHistory.newest_results,
    "texts and ContextRender's results": CompactedHistory.rendered_results,
    WITH_SUMMARY: CompactedHistory.rendered_results,
}
"""The methods by name. Their arguments are the history, a size in tokens, the agent's summary."""


@dataclass(frozen=True, slots=True)
class MethodScore:
    """The score of a method's context after one compaction.

    `steps` counts the measured steps. `complete` counts the steps that used only values which the
    context has. `tokens` is the size of the context, and `size` is the size that was requested, or
    `OWN_SIZE`.
    """

    session: str
    method: str
    size: int
    tokens: int
    steps: int
    complete: int


def score_compaction(compaction: RunCompaction) -> list[MethodScore]:
    """Return the score of the agent's own context, and of every method at every size.

    Return no scores if no step after the compaction is measured.
    """
    values_by_step = [values for _, values in used_values(compaction)]
    if not values_by_step:
        return []
    history = CompactedHistory(compaction.before, compaction.model)

    def score(method: str, size: int, context: Sequence[Json]) -> MethodScore:
        """Return the score of one context: how many steps used only values that it has."""
        complete = sum(not unseen_tokens(values, context) for values in values_by_step)
        tokens = sum(map(history.counter.message, context))
        return MethodScore(compaction.session, method, size, tokens, len(values_by_step), complete)

    # The agent wrote the summary into the first user message.
    texts = (content_text(m.get("content")) for m in compaction.summary if m["role"] == "user")
    summary = next(texts, "")
    # The agent's own context is its summary, with the messages that it kept.
    agent_score = score(AGENT, OWN_SIZE, compaction.summary)
    scores = [agent_score]
    for size in SIZES:
        # At its own size, a method gets as many tokens as the agent's context had.
        max_tokens = agent_score.tokens if size == OWN_SIZE else size
        for method, write in METHODS.items():
            text = write(history, max_tokens, summary if method == WITH_SUMMARY else "")
            scores.append(score(method, size, [{"role": "user", "content": text}]))
            finish_steps(len(compaction.before) // (len(SIZES) * len(METHODS)))
    return scores


def score_runs(runs: Sequence[Run], workers: int | None = None) -> list[MethodScore]:
    """Return the scores of all compactions in these runs, with a progress bar."""
    compactions = compactions_of(runs)
    tasks = [(compaction,) for compaction in compactions]
    sizes = [len(compaction.before) for compaction in compactions]
    results = run_tasks("Making contexts, messages", score_compaction, tasks, sizes, workers)
    return [score for compaction_scores in results for score in compaction_scores]


def share_of(scores: Sequence[MethodScore]) -> Estimate:
    """Return the share of steps that had every value. Its interval resamples the sessions."""
    sessions = sorted({score.session for score in scores})
    rows = np.array([(score.complete, score.steps) for score in scores], np.float64)
    session_of = [sessions.index(score.session) for score in scores]
    sums = sum_groups(rows, session_of, draw_samples(len(sessions)))
    complete, steps = 0, 1  # the columns of `rows`
    return Estimate.of(*(each[..., complete] / each[..., steps] for each in sums))


def method_table(scores: Sequence[MethodScore]) -> Rows:
    """Return a table of the shares of complete steps: a row per method and a column per size.

    The first row is for the agent's own context, which has only its own size.
    """
    columns = ["own size" if size == OWN_SIZE else f"{size:,}" for size in SIZES]
    rows: list[list[str]] = []
    for method in (AGENT, *METHODS):
        method_scores = [score for score in scores if score.method == method]
        by_size = [[score for score in method_scores if score.size == size] for size in SIZES]
        shares = [share_of(size_scores) if size_scores else None for size_scores in by_size]
        cells = (f"{percent_or_dash(s.value)} {span(s)}".strip() if s else "-" for s in shares)
        rows.append([method, *cells])
    # For the title, count with the scores of the agent's context: there is one per compaction.
    agent_scores = [score for score in scores if score.method == AGENT]
    steps = sum(score.steps for score in agent_scores)
    sessions = len({score.session for score in agent_scores})
    own_size = sum(score.tokens for score in agent_scores) // max(len(agent_scores), 1)
    title = (
        f"Steps with every value from before, of {steps} after "
        f"{count_of(len(agent_scores), 'compaction')} in {count_of(sessions, 'session')}, by "
        f"tokens; own size: {own_size:,} on average"
    )
    return Rows(title, ("what the agent has then", *columns), rows)


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
) -> list[RepeatedCompaction]:
    """Replay a session with a window of `window` tokens, and return its compactions.

    The context has the text of the last compaction, of at most `size` tokens, and the messages
    since. Before each model call, it is compacted if it exceeds `FULL_SHARE` of the window.
    """
    history, compactions = CompactedHistory([], model), list[RepeatedCompaction]()
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
                compactions.append(RepeatedCompaction(turn, context_tokens, text_tokens))
                context_tokens = text_tokens
        context_tokens += history.counter.message(message)
        finish_steps()
    return compactions


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
    return run_tasks("Compacting again, messages", repeat_compactions, tasks, sizes, workers)


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
        f"{count_of(len(compactions), 'compaction')}, each freed {percent(shares_freed[0])} to "
        f"{percent(shares_freed[-1])} of the context{gap_note}."
    )
