"""Drives one peer in its own environment over the same runs, and scores what it leaves."""

import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from catalogue import Peer
from contextrender_bridge.paths import app_dir
from environments import Unavailable
from transcripts import Sent, orphans

from engine.lookback.measures import RecallScore
from engine.text.tokens import counter_for
from evaluation.prompts import Prompts
from evaluation.runs import Run
from evaluation.scores import turns_of

WORKER = Path(__file__).parent / "worker.py"
START_SECONDS = 180.0
CALL_SECONDS = 120.0

Json = dict[str, Any]


@dataclass(slots=True)
class PeerScore:
    """What a peer left over some runs: counts are of calls whose history exceeds the budget.

    `sizes` are tokens of whole prompts; `beyond` counts those over the budget and what is outside.
    """

    recall: RecallScore = field(default_factory=RecallScore)
    sizes: list[int] = field(default_factory=list)
    beyond: int = 0
    with_orphans: int = 0
    orphans: int = 0
    without_task: int = 0
    failed: int = 0
    problem: str = ""
    milliseconds: list[float] = field(default_factory=list)


class Worker:
    """A peer's process."""

    def __init__(self, python: Path, peer: Peer) -> None:
        """Starts it. Raises Unavailable when it cannot be imported."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        command = [str(python), str(WORKER), peer.adapter, peer.variant, str(app_dir())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "TIKTOKEN_CACHE_DIR": _ranks(), "PYTHONPATH": ""},
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

    def open(self, messages: Sequence[Json]) -> None:
        """Hands over a run."""
        self._write({"run": messages})

    def shorten(self, messages: int, tokens: int) -> Json:
        """What it makes of the run's first messages. Raises Unavailable when it hangs or ends."""
        self._write({"messages": messages, "budget": tokens})
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
            _replay(worker, run, budget, score)
            advance(run.invocations)
    return score


def _replay(worker: Worker, run: Run, budget: int, score: PeerScore) -> None:
    counter = counter_for(run.model or None)
    prompts = Prompts(counter)
    sent = Sent(run)
    worker.open(sent.messages)
    for turn in turns_of(run):
        history = sent.messages[: turn.position]
        outside = sent.outside(turn.position)
        beside = prompts.tokens([history[position] for position in outside])
        full = prompts.tokens(history) - beside
        shown: Sequence[Json] = history
        text: str | None = None
        if full > budget:
            answer = worker.shorten(turn.position, budget + beside)
            if "error" in answer:
                score.failed += 1
                score.problem = score.problem or answer["error"]
            else:
                shown, text = answer["messages"], answer.get("text")
                score.milliseconds.append(answer["ms"])
        tokens = prompts.tokens(shown) if text is None else counter.message({"content": text})
        score.recall.add_turn(turn.events, sent.complete(shown), shown)
        score.recall.add_invocation(full, tokens - beside, budget)
        if full > budget:
            found = 0 if text is not None else orphans(shown) - orphans(history)
            score.sizes.append(tokens)
            score.beyond += tokens > budget + beside
            score.orphans += max(found, 0)
            score.with_orphans += found > 0
            score.without_task += not sent.has_task(shown)


def _ranks() -> str:
    """The folder of tiktoken's rank files that litellm ships, for peers that have no litellm."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(
            "bench/peers needs litellm's tokenizer files: run it in the project's environment."
        )
    return str(Path(spec.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers")
