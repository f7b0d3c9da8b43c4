"""Advice on many sessions, replayed a few at a time; asking again goes on."""

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from engine.models.embeddings import Embedder
from evaluation.advice import advise, first_calls, for_agents
from evaluation.cases import Case
from evaluation.in_process import replay_run
from evaluation.prices import RulePrices
from evaluation.runs import Run
from evaluation.scores import RunScore
from evaluation.verdict import Verdict

MOST_KEPT: Final = 4_000
"""Scores of one run under one case, of about 3 KB each."""

Read = Callable[[], tuple[Sequence[Mapping[str, Any]], Sequence[float]]]
"""Reads messages, and the seconds at which they came."""


class Scores:
    """Scores of runs under single cases, the least recently used dropped; safe between threads."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._held: OrderedDict[tuple[Hashable, Case], RunScore] = OrderedDict()

    def get(self, run: Hashable, case: Case) -> RunScore | None:
        """That of a run under a case, if it is kept."""
        with self._guard:
            if (score := self._held.get((run, case))) is not None:
                self._held.move_to_end((run, case))
            return score

    def keep(self, run: Hashable, case: Case, score: RunScore) -> None:
        """Keeps it."""
        with self._guard:
            self._held[run, case] = score
            while len(self._held) > self._most:
                self._held.popitem(last=False)


SCORES: Final = Scores()


class Weighing:
    """Weighs the first `calls` calls of sessions under cases, until it is `enough`.

    `sessions` counts those it was shown, `scores` are of those that are weighed under all cases.
    """

    def __init__(
        self, cases: Sequence[Case], calls: int, embedder: Embedder, enough: Callable[[], bool]
    ) -> None:
        self.cases = for_agents(cases)
        self.sessions = 0
        self.scores: list[RunScore] = []
        self._calls = calls
        self._embedder = embedder
        self._enough = enough

    def weigh(self, known_by: tuple[Hashable, ...], session: str, model: str, read: Read) -> None:
        """One more session. `known_by` tells its messages from any others; `read` reads them."""
        self.sessions += 1
        run: Run | None = None
        found: list[RunScore] = []
        for case in self.cases:
            score = SCORES.get(known_by, case)
            if score is None:
                if self._enough():
                    return
                run = run or self._run(session, model, *read())
                score = _lean(replay_run(run, [case], self._embedder, closed_loop=True))
                SCORES.keep(known_by, case, score)
            found.append(score)
        self.scores.append(dataclasses.replace(found[0], cases=[score.cases[0] for score in found]))

    @property
    def replayed(self) -> int:
        """Calls of the sessions that are weighed."""
        return sum(score.cases[0].recall.invocations for score in self.scores)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on them, each a task of its own; None while there is none."""
        if not self.scores:
            return None
        runs = [Run(score.id, score.source, score.model, []) for score in self.scores]
        return advise(runs, self.cases, RulePrices(), lambda _runs, _cases: self.scores)

    def _run(
        self,
        session: str,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        times: Sequence[float],
    ) -> Run:
        taken = [dict(message) for message in first_calls(messages, self._calls)[0]]
        in_order = list(accumulate(times[: len(taken)], max))
        return Run(session, "", model, taken, session, times=in_order)


def _lean(score: RunScore) -> RunScore:
    """Without what sums have no need of: the tokens of every call but the longest."""
    for case in score.cases:
        case.calls = []
    return dataclasses.replace(score, full_calls=[max(score.full_calls, default=0)])
