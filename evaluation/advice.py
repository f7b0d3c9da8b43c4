"""What to use for an agent, from runs of it: replays in a closed loop, and the verdict on them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from engine.models.embeddings import NoEmbedder
from evaluation.bootstrap import Bootstrap
from evaluation.cases import Case, cases_of
from evaluation.in_process import replay_run
from evaluation.prices import Prices, rule_of
from evaluation.runs import Run
from evaluation.scores import RunScore
from evaluation.verdict import Verdict, verdict_on

POLICIES: Final = "contextrender_frozen"
BUDGETS: Final = "6000,12000,24000,48000"

Replay = Callable[[Sequence[Run], Sequence[Case]], Sequence[RunScore]]
"""Scores runs under cases."""


def advise(
    runs: Sequence[Run], cases: Sequence[Case], prices: Prices, replay: Replay | None = None
) -> Verdict:
    """The verdict on runs under these cases, by the rule of the provider whose models they are of.

    It is for agents at work, so every case is replayed as `live`.
    `replay` may do the work elsewhere; without it, it is done here, and the cases embed nothing.
    """
    cases = [dataclasses.replace(case, live=True) for case in cases]
    scores = (replay or _here)(runs, cases)
    bootstrap = Bootstrap(scores, prices=prices)
    known = [(case, bootstrap.estimates(index)) for index, case in enumerate(cases)]
    return verdict_on(known, rule_of(run.model for run in runs), bootstrap.tasks)


def advise_on_session(
    messages: Sequence[Mapping[str, Any]], model: str = "", times: Sequence[float] = ()
) -> Verdict:
    """The verdict on one session, of `advise FILE` where the file holds that session alone.

    `times` are the seconds at which messages came, if known. There are no intervals: those need
    several tasks. It takes about 30 ms a recorded call.
    """
    recorded = [dict(message) for message in messages]
    in_order = list(accumulate(times, max))
    run = Run("session", "", model, recorded, times=in_order)
    return advise([run], cases_of(POLICIES, BUDGETS), Prices())


def first_calls(
    messages: Sequence[Mapping[str, Any]], calls: int
) -> tuple[Sequence[Mapping[str, Any]], int]:
    """The messages up to the answer of so many model calls, and how many calls there are in all."""
    answers = [at for at, message in enumerate(messages, 1) if message["role"] == "assistant"]
    return (messages if len(answers) <= calls else messages[: answers[calls - 1]]), len(answers)


def _here(runs: Sequence[Run], cases: Sequence[Case]) -> list[RunScore]:
    return [replay_run(run, cases, NoEmbedder(), closed_loop=True) for run in runs]
