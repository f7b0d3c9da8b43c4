"""Drives one peer in its own environment over the same runs, and scores what it leaves, as what our
own policies leave.
"""

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import contextrender_bridge
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.billing import Prompts
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.closed_loop import replay_in_closed_loop
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import (
    Prompt,
    RunScore,
    Scorer,
    Turn,
    score_of,
    turns_of,
)

from bench.peers.catalogue import Peer, Unavailable
from bench.peers.transcripts import Sent
from bench.shipped import litellms

BRIDGE = Path(contextrender_bridge.__file__).parent.parent
WORKER = Path(__file__).parent / "worker.py"
RANKS = litellms() / "litellm_core_utils" / "tokenizers"
"""Of tiktoken's files, which LiteLLM ships, for peers that have no LiteLLM."""
START_SECONDS = 180.0
CALL_SECONDS = 120.0

Json = dict[str, Any]


@dataclass(slots=True)
class PeerScore:
    """What a peer left over some runs: counts are of calls whose history exceeds the budget.

    `runs` are scored like a case of ours, in a closed loop too.
    `sizes` are tokens of whole prompts; `beyond` counts those over the budget and what is outside.
    """

    runs: list[RunScore] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    beyond: int = 0
    failed: int = 0
    problem: str = ""
    milliseconds: list[float] = field(default_factory=list)


class Worker:
    """A peer's process."""

    def __init__(self, python: Path, peer: Peer) -> None:
        """Starts it. Raises Unavailable when it cannot be imported."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        command = [
            str(python),
            str(WORKER),
            f"with_{peer.library}",
            peer.variant,
            str(app_dir()),
            str(BRIDGE),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "TIKTOKEN_CACHE_DIR": str(RANKS), "PYTHONPATH": ""},
        )
        if "ready" not in (self._read(START_SECONDS) or {}):
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip().splitlines()
            self.__exit__()
            raise Unavailable(f"it does not start: {said[-1] if said else 'no reason given'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def shorten(self, kept: int, messages: Sequence[Json], tokens: int) -> Json:
        """What it makes of the first messages that it was sent before, and these behind them.

        Raises Unavailable when it hangs or ends.
        """
        self._write({"kept": kept, "messages": messages, "budget": tokens})
        answer = self._read(CALL_SECONDS)
        if answer is None:
            raise Unavailable(f"it gave no answer within {CALL_SECONDS:.0f} s")
        return answer

    def _write(self, line: Json) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise Unavailable("its process ended") from None

    def _read(self, seconds: float) -> Json | None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else b""
        return json.loads(line) if line else None


def drive(
    python: Path, peer: Peer, runs: Sequence[Run], budget: int, advance: Callable[[int], None]
) -> PeerScore:
    """Scores a peer on runs. It is asked only where the whole history exceeds the budget."""
    score = PeerScore()
    with Worker(python, peer) as worker:
        for run in runs:
            score.runs.append(_replay(worker, run, budget, score))
            advance(run.invocations)
    return score


def _replay(worker: Worker, run: Run, budget: int, score: PeerScore) -> RunScore:
    prompts = Prompts(counter_for(run.model or None), run.tools)
    scorer = Scorer(run, Case("full", budget), prompts)
    shorten = _Shortened(worker, prompts, budget, score)
    for turn in turns_of(run):
        scorer.add(turn, shorten(run.messages[: turn.position]))
    again = _Shortened(worker, prompts, budget, PeerScore())
    scorer.score.loop = replay_in_closed_loop(run, lambda history, _: again(history), prompts)
    return score_of(run, [scorer.score], prompts)


class _Shortened:
    """Makes prompts of one growing history: as it is while it fits, else as the peer has it."""

    def __init__(self, worker: Worker, prompts: Prompts, budget: int, score: PeerScore) -> None:
        self._worker = worker
        self._prompts = prompts
        self._budget = budget
        self._score = score
        self._sent = Sent()
        self._handed_over = 0

    def __call__(self, messages: Sequence[Json]) -> Prompt:
        sent = self._sent
        sent.extend(messages[len(sent.messages) :])
        outside = [sent.messages[position] for position in sent.outside(len(messages))]
        beside = self._prompts.tokens(outside)
        full = self._prompts.tokens(sent.messages) - beside
        shown = self._shown(beside) if full > self._budget else sent.messages
        tokens = self._prompts.tokens(shown)
        if full > self._budget:
            self._score.sizes.append(tokens)
            self._score.beyond += tokens > self._budget + beside
        visible, left = frozenset(sent.complete(shown)), frozenset(sent.left(shown))
        return Prompt(full, tokens - beside, beside, visible, shown, visible=left)

    def _shown(self, beside: int) -> Sequence[Json]:
        """What the peer leaves."""
        kept, known = self._handed_over, self._sent.messages
        answer = self._worker.shorten(kept, known[kept:], self._budget + beside)
        self._handed_over = len(known)
        if "error" in answer:
            self._score.failed += 1
            self._score.problem = self._score.problem or answer["error"]
            return self._sent.messages
        self._score.milliseconds.append(answer["ms"])
        messages: list[Json] = answer["messages"]
        return messages


def replay_ours(runs: Sequence[Run], cases: Sequence[Case]) -> Iterator[tuple[Case, PeerScore]]:
    """Each case's score; its times are those of rendering, embedding left out."""
    embedder = load_embedder(current_settings().embed_model)
    for case in cases:
        score = PeerScore()
        for run in runs:
            watch = partial(_watch, score)
            score.runs.append(replay_run(run, [case], embedder, watch, closed_loop=True))
        yield case, score


def _watch(score: PeerScore, case: Case, _: Turn, prompt: Prompt) -> None:
    if prompt.tokens_full > case.budget:
        score.milliseconds.append(1000 * prompt.seconds)
        score.sizes.append(prompt.tokens_rendered + prompt.tokens_unbudgeted)
        score.beyond += prompt.tokens_rendered > case.budget
