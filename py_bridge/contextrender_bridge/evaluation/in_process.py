"""Replays a run without a server, with the engine, one model call at a time."""

import time
from collections.abc import Sequence

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call.render_call import RenderedCall, assemble, render_call
from contextrender_bridge.engine.history.growable_arrays import Vectors, VectorTable
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.models.embeddings import Embedder, RememberingEmbedder
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.engine.text.tokens import content_text, counter_for
from contextrender_bridge.evaluation.baselines import BASELINES, baseline_policy, new_summaries
from contextrender_bridge.evaluation.billing import Prompts
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.closed_loop import replay_in_closed_loop
from contextrender_bridge.evaluation.progress import finish_steps
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import (
    Prompt,
    PromptCallback,
    RunScore,
    Scorer,
    score_of,
    turns_of,
)


def replay_run(
    run: Run,
    cases: Sequence[Case],
    embedder: Embedder,
    on_prompt: PromptCallback | None = None,
    *,
    closed_loop: bool = False,
) -> RunScore:
    """Return the score of a run: render the prompt of every model call under every case.

    `on_prompt` is called with every prompt. With `closed_loop` every case is replayed once more,
    with an agent that fetches missing results again.
    """
    timed_embedder = _TimedEmbedder(embedder)
    counter = counter_for(run.model or None)
    prompts = Prompts(counter, run.tools)
    # All cases share one history, so messages are recorded once. Each renderer has its own vectors
    # and summaries, so that a case's cost for them does not depend on the other cases.
    history = History()
    scorers = [Scorer(run, case, prompts) for case in cases]
    renderers = [Renderer(case, run.model, timed_embedder, history) for case in cases]
    recording_seconds = 0.0
    for turn in turns_of(run):
        # Record the messages since the previous call, once for all cases.
        start = time.perf_counter()
        new_messages = slice(len(history), turn.position)
        history.extend(run.messages[new_messages], counter, run.times[new_messages])
        recording_seconds += time.perf_counter() - start
        for scorer, render in zip(scorers, renderers, strict=True):
            let_requests_run()
            prompt = render(run.messages[: turn.position], times=())
            scorer.add(turn, prompt)
            if on_prompt is not None:
                on_prompt(scorer.score.case, turn, prompt)
            finish_steps()
    score = score_of(run, [scorer.score for scorer in scorers], prompts)
    if closed_loop:
        # Repeated calls make the history of each case another one, so each has its own history.
        for case_score in score.cases:
            render = Renderer(case_score.case, run.model, timed_embedder)
            case_score.loop = replay_in_closed_loop(run, render, prompts)
    score.recording, score.embedding = recording_seconds, timed_embedder.seconds
    return score


class Renderer:
    """Renders a history that grows from call to call, under one case."""

    def __init__(
        self, case: Case, model: str, embedder: Embedder, history: History | None = None
    ) -> None:
        """Create a renderer with its own vectors and summaries.

        Without `history` it also has its own history. `model` decides how tokens are counted and
        how large a prompt may be.
        """
        self._case = case
        self._model = model
        self._counter = counter_for(model or None)
        self._embedder = (
            embedder if isinstance(embedder, _TimedEmbedder) else _TimedEmbedder(embedder)
        )
        self._history = History() if history is None else history
        self._vectors = VectorTable()
        self._summaries = new_summaries(case.policy) if case.policy in BASELINES else None
        self._previous: Selection | None = None

    def __call__(self, messages: Sequence[Json], times: Sequence[float]) -> Prompt:
        """Return the prompt of the next call, whose full history is `messages`.

        Record the messages that the history does not have yet. `times` has the Unix second of each
        message. The prompt's `seconds` do not include the time for embeddings.
        """
        history = self._history
        new_messages = slice(len(history), None)
        history.extend(messages[new_messages], self._counter, times[new_messages])

        # Render, and measure the time without the time that the embedder spends meanwhile.
        start, embedding_before = time.perf_counter(), self._embedder.seconds
        rendered = self._render(messages)
        prompt_messages = [assemble(messages[item["message"]], item) for item in rendered.items]
        embedding_seconds = self._embedder.seconds - embedding_before
        seconds = time.perf_counter() - start - embedding_seconds

        positions = [item["message"] for item in rendered.items]
        return Prompt(
            tokens_full=rendered.tokens_before,
            tokens_rendered=rendered.tokens_after,
            tokens_unbudgeted=rendered.context.unbudgeted_tokens,
            complete=frozenset(rendered.complete),
            messages=prompt_messages,
            usage=rendered.usage,
            has_warning=bool(rendered.warnings),
            seconds=seconds,
            visible=frozenset(position for position in positions if history.is_result(position)),
            positions=positions,
            budget=rendered.budget,
        )

    def _render(self, messages: Sequence[Json]) -> RenderedCall:
        """Render the recorded history, which has these messages, after the previous call's prompt.

        Keep the selection for the next call.
        """
        case, embedder = self._case, self._embedder
        self._history.vectors = self._vectors  # renderers that share the history have their own
        policy = (
            baseline_policy(case.policy, self._summaries, case.agent_defaults)
            if self._summaries
            else policy_named(case.policy)
        )
        rendered = render_call(
            self._history,
            budget=case.budget,
            policy=policy,
            parameters=case.parameters,
            counter=self._counter,
            embedder=lambda: embedder,
            texts_of=lambda positions: [
                content_text(messages[p].get("content")) for p in positions
            ],
            agent_defaults=case.agent_defaults,
            model_window=window_of(self._model),
            previous=self._previous,
        )
        self._previous = rendered.selection
        if self._summaries:  # a baseline: add what its model did in this call
            usage, warnings = self._summaries.take_usage()
            rendered.summary_usage.append(usage)
            rendered.warnings += warnings
        return rendered


class _TimedEmbedder(RememberingEmbedder):
    """An embedder that adds up the seconds it spends."""

    seconds = 0.0

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of `texts`, and add the time to `seconds`."""
        start = time.perf_counter()
        try:
            return super().embed(texts)
        finally:
            self.seconds += time.perf_counter() - start
