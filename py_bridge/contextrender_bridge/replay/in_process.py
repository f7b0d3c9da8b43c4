"""Replaying a run without a server: the engine alone, one model call at a time."""

import time
from collections.abc import Sequence

from contextrender_bridge.replay.runs import Run
from contextrender_bridge.replay.scores import (
    Case,
    CaseScore,
    Prompt,
    RunScore,
    Turn,
    Watch,
    turns_of,
)
from engine.embeddings import Embedder
from engine.history import History
from engine.parameters import Parameters
from engine.render import assemble, render_call
from engine.tokens import TokenCounter, content_text, counter_for
from engine.vectors import Vectors


def replay_run(
    run: Run, cases: Sequence[Case], embedder: Embedder, watch: Watch | None = None
) -> RunScore:
    """Renders the history before every assistant message under every case, and scores it.

    All cases share one history: messages are recorded, and results embedded, once.
    """
    timed = _TimedEmbedder(embedder)
    counter = counter_for(run.model or None)
    history = History()
    scores = [CaseScore(case) for case in cases]
    recording = 0.0
    for turn in turns_of(run):
        start = time.perf_counter()
        history.extend(run.messages[len(history) : turn.position], counter)
        recording += time.perf_counter() - start
        for score in scores:
            start = time.perf_counter()
            embedding = timed.seconds
            prompt = _prompt(run, history, score.case, turn, counter, timed)
            taken = time.perf_counter() - start - (timed.seconds - embedding)
            score.add(turn, prompt, taken)
            if watch is not None:
                watch(score.case, turn, prompt)
    return RunScore(run.id, run.source, run.model, scores, recording, timed.seconds)


def _prompt(
    run: Run, history: History, case: Case, turn: Turn, counter: TokenCounter, embedder: Embedder
) -> Prompt:
    rendered = render_call(
        history,
        budget=case.budget,
        policy=case.policy,
        parameters=Parameters(),
        counter=counter,
        embedder=embedder,
        text_of=lambda message: content_text(run.messages[message].get("content")),
    )
    return Prompt(
        rendered.tokens_before,
        rendered.tokens_after,
        rendered.plan.retained.outside_tokens,
        frozenset(rendered.visible),
        [assemble(run.messages[item.message], item) for item in rendered.items],
    )


class _TimedEmbedder:
    """An embedder that adds up the time it takes."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.seconds = 0.0

    @property
    def name(self) -> str:
        return self._inner.name

    def embed(self, texts: Sequence[str]) -> Vectors:
        start = time.perf_counter()
        try:
            return self._inner.embed(texts)
        finally:
            self.seconds += time.perf_counter() - start
