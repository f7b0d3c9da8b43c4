"""Recommends a policy and a budget for an agent, by replaying its runs in a closed loop."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import RunScore
from contextrender_bridge.evaluation.verdict import Verdict, verdict_of

POLICIES: Final = "contextrender_cache_aware"
BUDGETS: Final = "6000,12000,24000,48000,auto"

Replay = Callable[[Sequence[Run], Sequence[Case]], Sequence[RunScore]]
"""A function that scores runs under cases."""


def recommend(runs: Sequence[Run], cases: Sequence[Case], replay: Replay | None = None) -> Verdict:
    """Replay the runs under these cases, and return the verdict on which case to use.

    The costs are by the billing rule of the runs' provider. Every case is replayed with
    `agent_defaults`, because the verdict is for agents at work. `replay` may use other processes.
    If `replay` is None, the runs are replayed in this process without embeddings.
    """

    def replay_here(runs: Sequence[Run], cases: Sequence[Case]) -> list[RunScore]:
        """Replay the runs in this process, in a closed loop."""
        return [replay_run(run, cases, NoEmbedder(), closed_loop=True) for run in runs]

    cases = [dataclasses.replace(case, agent_defaults=True) for case in cases]
    scores = (replay or replay_here)(runs, cases)
    return verdict_of(Bootstrap(scores))


def first_calls[Message: Mapping[str, Any]](
    messages: Sequence[Message], calls: int
) -> tuple[Sequence[Message], int]:
    """Return the messages of the first `calls` model calls, and the number of all model calls.

    The messages end with an answer, unless there are no more calls than that.
    """
    answer_ends = [end for end, message in enumerate(messages, 1) if message["role"] == "assistant"]
    if len(answer_ends) <= calls:
        return messages, len(answer_ends)
    return messages[: answer_ends[calls - 1]], len(answer_ends)
