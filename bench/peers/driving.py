"""Runs one peer in its own environment on the same runs, and scores its prompts like a policy's."""

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
from bench.peers.transcripts import SentHistory
from bench.shipped import litellm_folder

BRIDGE = Path(contextrender_bridge.__file__).parent.parent
WORKER = Path(__file__).parent / "worker.py"
RANKS = litellm_folder() / "litellm_core_utils" / "tokenizers"
"""The folder of tiktoken's files, which LiteLLM ships, for peers that have no LiteLLM."""
START_SECONDS = 180.0
CALL_SECONDS = 120.0

Json = dict[str, Any]


@dataclass(slots=True)
class PeerScore:
    """The score of a peer over some runs. `runs` are scored like those of a policy.

    The other fields are of the calls whose history exceeds the budget. `sizes` has the tokens of
    each whole prompt, and `milliseconds` the time of each shortening. `over_budget` counts the
    prompts that exceed the budget plus the unbudgeted tokens. `failed` counts the calls at which
    the peer failed, and `problem` is the first failure.
    """

    runs: list[RunScore] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    over_budget: int = 0
    failed: int = 0
    problem: str = ""
    milliseconds: list[float] = field(default_factory=list)


class Worker:
    """A peer's process."""

    def __init__(self, python: Path, peer: Peer) -> None:
        """Start the process. Raise Unavailable if the peer cannot be imported."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        command = [
            str(python),
            str(WORKER),
            f"with_{peer.library}",
            peer.variant,
            str(app_dir()),
            str(BRIDGE),
            str(Path.cwd()),
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
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            self.__exit__()
            raise Unavailable(f"it does not start: {lines[-1] if lines else 'no reason given'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def shorten(self, known_count: int, messages: Sequence[Json], tokens: int) -> Json:
        """Return the history, shortened to at most `tokens` tokens.

        The history is the first `known_count` of the messages that were sent before, and then
        `messages`. Raise Unavailable if the process hangs or ends.
        """
        self._write({"known": known_count, "messages": messages, "budget": tokens})
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
        """Return the next line, or None if there is none within these seconds."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else b""
        return json.loads(line) if line else None


def drive(
    python: Path, peer: Peer, runs: Sequence[Run], budget: int, advance: Callable[[int], None]
) -> PeerScore:
    """Return a peer's score on runs. It is called only if the full history exceeds the budget."""
    score = PeerScore()
    with Worker(python, peer) as worker:
        for run in runs:
            score.runs.append(_replay(worker, run, budget, score))
            advance(run.invocations)
    return score


def _replay(worker: Worker, run: Run, budget: int, score: PeerScore) -> RunScore:
    """Return the score of one run, with a closed loop. Add its calls to `score`."""
    prompts = Prompts(counter_for(run.model or None), run.tools)
    scorer = Scorer(run, Case("full", budget), prompts)
    shorten = _PeerPrompts(worker, prompts, budget, score)
    for turn in turns_of(run):
        scorer.add(turn, shorten(run.messages[: turn.position]))
    # The calls of the closed loop are not added to `score`.
    shorten_in_loop = _PeerPrompts(worker, prompts, budget, PeerScore())
    scorer.score.loop = replay_in_closed_loop(
        run, lambda history, _: shorten_in_loop(history), prompts
    )
    return score_of(run, [scorer.score], prompts)


class _PeerPrompts:
    """Makes prompts of one growing history: unchanged if it fits, otherwise by the peer."""

    def __init__(self, worker: Worker, prompts: Prompts, budget: int, score: PeerScore) -> None:
        self._worker = worker
        self._prompts = prompts
        self._budget = budget
        self._score = score
        self._history = SentHistory()
        self._known_count = 0  # the number of messages that the peer's process has

    def __call__(self, messages: Sequence[Json]) -> Prompt:
        """Return the prompt of the next call, whose history is all of `messages`."""
        history = self._history
        history.extend(messages[len(history.messages) :])
        unbudgeted = [history.messages[position] for position in history.unbudgeted(len(messages))]
        unbudgeted_tokens = self._prompts.tokens(unbudgeted)
        full_tokens = self._prompts.tokens(history.messages) - unbudgeted_tokens
        exceeds_budget = full_tokens > self._budget
        prompt_messages = self._shorten(unbudgeted_tokens) if exceeds_budget else history.messages
        prompt_tokens = self._prompts.tokens(prompt_messages)
        if exceeds_budget:
            self._score.sizes.append(prompt_tokens)
            self._score.over_budget += prompt_tokens > self._budget + unbudgeted_tokens
        return Prompt(
            full_tokens,
            prompt_tokens - unbudgeted_tokens,
            unbudgeted_tokens,
            frozenset(history.complete(prompt_messages)),
            prompt_messages,
            visible=frozenset(history.visible(prompt_messages)),
            budget=self._budget,
        )

    def _shorten(self, unbudgeted_tokens: int) -> Sequence[Json]:
        """Return the peer's shortened history, or the full one if the peer fails."""
        history = self._history.messages
        answer = self._worker.shorten(
            self._known_count, history[self._known_count :], self._budget + unbudgeted_tokens
        )
        self._known_count = len(history)
        if "error" in answer:
            self._score.failed += 1
            self._score.problem = self._score.problem or answer["error"]
            return history
        self._score.milliseconds.append(answer["ms"])
        messages: list[Json] = answer["messages"]
        return messages


def replay_ours(runs: Sequence[Run], cases: Sequence[Case]) -> Iterator[tuple[Case, PeerScore]]:
    """Yield each case's score. Times are of rendering, without embedding."""
    embedder = load_embedder(current_settings().embed_model)
    for case in cases:
        score = PeerScore()
        for run in runs:
            add_prompt = partial(_add_prompt, score)
            score.runs.append(replay_run(run, [case], embedder, add_prompt, closed_loop=True))
        yield case, score


def _add_prompt(score: PeerScore, _: Case, __: Turn, prompt: Prompt) -> None:
    """Add a prompt to a score if its history exceeds the budget."""
    if prompt.tokens_full > prompt.budget:
        score.milliseconds.append(1000 * prompt.seconds)
        score.sizes.append(prompt.tokens_rendered + prompt.tokens_unbudgeted)
        score.over_budget += prompt.tokens_rendered > prompt.budget
