"""ContextRender's own policies on the same runs, scored like a peer."""

from collections.abc import Iterator, Sequence

from contextrender_bridge.base.settings import current_settings

from bench.peers.driving import PeerScore
from engine.models.embeddings import load_embedder
from evaluation.cases import Case
from evaluation.in_process import replay_run
from evaluation.runs import Run
from evaluation.scores import Prompt, Turn, Watch
from tests.api.checks import orphans


def replay_ours(runs: Sequence[Run], cases: Sequence[Case]) -> Iterator[tuple[Case, PeerScore]]:
    """Each case's score; its times are those of rendering, embedding left out."""
    embedder = load_embedder(current_settings().embed_model)
    for case in cases:
        score = PeerScore()
        for run in runs:
            watch = _watch(run, score)
            score.runs.append(replay_run(run, [case], embedder, watch, closed_loop=True))
        yield case, score


def _watch(run: Run, score: PeerScore) -> Watch:
    task = next((m.get("content") for m in run.messages if m["role"] == "user"), None)

    def watch(case: Case, _: Turn, prompt: Prompt) -> None:
        if prompt.tokens_full <= case.budget:
            return
        score.milliseconds.append(1000 * prompt.seconds)
        score.sizes.append(prompt.tokens_rendered + prompt.tokens_outside)
        score.beyond += prompt.tokens_rendered > case.budget
        score.with_orphans += bool(orphans(prompt.messages))
        score.without_task += task not in [message.get("content") for message in prompt.messages]

    return watch
