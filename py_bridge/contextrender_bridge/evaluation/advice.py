"""What to use for an agent, from runs of it: replays in a closed loop, and the verdict on them."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.worth import rule_of
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.models.embeddings import Embedder, NoEmbedder
from contextrender_bridge.engine.parameters import budget_name
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import Case, cases_of
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import RunScore
from contextrender_bridge.evaluation.verdict import Verdict, lengths_of, verdict_on

POLICIES: Final = "contextrender_cache_aware"
BUDGETS: Final = "6000,12000,24000,48000,auto"
MOST_CASES: Final = 12

Replay = Callable[[Sequence[Run], Sequence[Case]], Sequence[RunScore]]
"""Scores runs under cases."""


def recommend(
    runs: Sequence[Run],
    cases: Sequence[Case],
    replay: Replay | None = None,
    embedder: Embedder | None = None,
) -> Verdict:
    """The verdict on runs under these cases, by the rule of the provider whose models they are of.

    It is for agents at work, so every case is replayed as `agent_defaults`.
    `replay` may do the work elsewhere; without it, it is done here, and the cases embed nothing
    but by `embedder`.
    """

    def here(runs: Sequence[Run], cases: Sequence[Case]) -> list[RunScore]:
        vectors = embedder or NoEmbedder()
        return [replay_run(run, cases, vectors, closed_loop=True) for run in runs]

    cases = for_agents(cases)
    scores = (replay or here)(runs, cases)
    bootstrap = Bootstrap(scores)
    known = [(case, bootstrap.estimates(index)) for index, case in enumerate(cases)]
    rule = rule_of(run.model for run in runs)
    model = Counter(run.model for run in runs if run.model).most_common(1)
    lengths = lengths_of(scores, rule)
    return verdict_on(known, rule, bootstrap.tasks, lengths, model[0][0] if model else "")


def for_agents(cases: Sequence[Case]) -> list[Case]:
    """The cases as they are for agents at work."""
    return [dataclasses.replace(case, agent_defaults=True) for case in cases]


def recommend_for_session(
    messages: Sequence[Mapping[str, Any]],
    model: str = "",
    times: Sequence[float] = (),
    cases: Sequence[Case] = (),
    embedder: Embedder | None = None,
) -> Verdict:
    """The verdict on one session, of `recommend FILE` where the file holds that session alone.

    `times` are the seconds at which messages came, if known. There are no intervals: those need
    several tasks. It takes about 30 ms a recorded call. `embedder` serves other `cases` than those
    that advice is made from.
    """
    run = _run("session", model, messages, times)
    return recommend([run], cases or session_cases(), embedder=embedder)


def session_cases(policies: Sequence[str] = (), budgets: Sequence[int] = ()) -> list[Case]:
    """The cases of a session's replay; those that advice is made from unless named.

    Raises InvalidRequest for too many, and for a policy that there is not or that needs a model.
    """
    usual = cases_of(POLICIES, BUDGETS)
    if not policies and not budgets:
        return usual
    named = list(dict.fromkeys(policies)) or [POLICIES]
    sizes = list(dict.fromkeys(budgets)) or [case.budget for case in usual]
    if len(named) * len(sizes) > MOST_CASES:
        raise InvalidRequest(f"policies and budgets may make {MOST_CASES} cases at most")
    for name in named:
        if policy_named(name).needs_model:
            raise InvalidRequest(f"policy {name!r} needs a model, and advice asks none")
        for size in sizes:
            RenderSettings().updated({"policy": name, "budget": budget_name(size)})
    return [Case(name, size) for name in named for size in sizes]


def first_calls(
    messages: Sequence[Mapping[str, Any]], calls: int
) -> tuple[Sequence[Mapping[str, Any]], int]:
    """The messages up to the answer of so many model calls, and how many calls there are in all."""
    answers = [at for at, message in enumerate(messages, 1) if message["role"] == "assistant"]
    return (messages if len(answers) <= calls else messages[: answers[calls - 1]]), len(answers)


SCORES: Final[dict[tuple[Hashable, Case], RunScore]] = {}
"""Of runs under single cases, of about 3 KB each."""
MOST_KEPT: Final = 4_000

Read = Callable[[], tuple[Sequence[Mapping[str, Any]], Sequence[float]]]
"""Reads messages, and the seconds at which they came."""


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
            score = SCORES.get((known_by, case))
            if score is None:
                if self._enough():
                    return
                if run is None:
                    messages, times = read()
                    run = _run(session, model, first_calls(messages, self._calls)[0], times)
                score = _lean(replay_run(run, [case], self._embedder, closed_loop=True))
                SCORES[known_by, case] = score
                for oldest in list(SCORES)[:-MOST_KEPT]:
                    SCORES.pop(oldest, None)
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
        return recommend(runs, self.cases, lambda _runs, _cases: self.scores)


def _run(
    name: str, model: str, messages: Sequence[Mapping[str, Any]], times: Sequence[float]
) -> Run:
    """A session as a run, and a task of its own."""
    taken, in_order = [dict(message) for message in messages], list(accumulate(times, max))
    return Run(name, "", model, taken, name, times=in_order[: len(taken)])


def _lean(score: RunScore) -> RunScore:
    """Without what sums have no need of: the tokens of every call but the longest."""
    for case in score.cases:
        case.calls = []
    return dataclasses.replace(score, full_calls=[max(score.full_calls, default=0)])
