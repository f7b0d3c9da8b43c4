"""Recommends a policy and a budget for an agent, by replaying its runs in a closed loop."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.worth import pricing_rule_of
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.models.embeddings import Embedder, NoEmbedder
from contextrender_bridge.engine.parameters import budget_name
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import Case, cases_of
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import RunScore
from contextrender_bridge.evaluation.verdict import Verdict, run_lengths, verdict_on

POLICIES: Final = "contextrender_cache_aware"
BUDGETS: Final = "6000,12000,24000,48000,auto"
MAX_CASES: Final = 12

Replay = Callable[[Sequence[Run], Sequence[Case]], Sequence[RunScore]]
"""A function that scores runs under cases."""


def recommend(
    runs: Sequence[Run],
    cases: Sequence[Case],
    replay: Replay | None = None,
    embedder: Embedder | None = None,
) -> Verdict:
    """Return the verdict on runs under these cases, by the billing rule of the runs' provider.

    Every case is replayed with `agent_defaults`, because the verdict is for agents at work.
    `replay` may use other processes. If `replay` is None, the runs are replayed in this process,
    with `embedder` or, if that is None too, without embeddings.
    """

    def replay_here(runs: Sequence[Run], cases: Sequence[Case]) -> list[RunScore]:
        vectors = embedder or NoEmbedder()
        return [replay_run(run, cases, vectors, closed_loop=True) for run in runs]

    cases = for_agents(cases)
    scores = (replay or replay_here)(runs, cases)
    bootstrap = Bootstrap(scores)
    figures_by_case = [(case, bootstrap.estimates(index)) for index, case in enumerate(cases)]
    rule = pricing_rule_of(run.model for run in runs)
    run_counts = Counter(run.model for run in runs if run.model)
    model = max(run_counts, key=lambda name: run_counts[name], default="")
    lengths = run_lengths(scores, rule)
    return verdict_on(figures_by_case, rule, tasks=bootstrap.tasks, runs=lengths, model=model)


def for_agents(cases: Sequence[Case]) -> list[Case]:
    """Return the cases with `agent_defaults` set."""
    return [dataclasses.replace(case, agent_defaults=True) for case in cases]


def recommend_for_session(
    messages: Sequence[Mapping[str, Any]],
    model: str = "",
    times: Sequence[float] = (),
    cases: Sequence[Case] = (),
    embedder: Embedder | None = None,
) -> Verdict:
    """Return the verdict on one session, as `recommend FILE` would for a file with that session.

    `times` has the Unix second of each message; it is empty if unknown. The verdict has no
    intervals, because intervals need several tasks. Each recorded call takes about 30 ms.
    `embedder` is used by `cases` whose policies embed; the default cases' policies do not.
    """
    run = _session_run("session", model, messages, times)
    return recommend([run], cases or session_cases(), embedder=embedder)


def session_cases(policies: Sequence[str] = (), budgets: Sequence[int] = ()) -> list[Case]:
    """Return the cases of these policies and budgets. An empty argument stands for the defaults.

    Raise InvalidRequest for too many cases, for an invalid budget, and for a policy that is unknown
    or needs a model.
    """
    defaults = cases_of(POLICIES, BUDGETS)
    if not policies and not budgets:
        return defaults
    policy_names = list(dict.fromkeys(policies)) or [POLICIES]
    sizes = list(dict.fromkeys(budgets)) or [case.budget for case in defaults]
    if len(policy_names) * len(sizes) > MAX_CASES:
        raise InvalidRequest(f"policies and budgets together may make at most {MAX_CASES} cases")
    for name in policy_names:
        if policy_named(name).needs_model:
            raise InvalidRequest(
                f"policy {name!r} needs a model, which a recommendation cannot call"
            )
        for size in sizes:
            RenderSettings().updated({"policy": name, "budget": budget_name(size)})
    return [Case(name, size) for name in policy_names for size in sizes]


def first_calls(
    messages: Sequence[Mapping[str, Any]], calls: int
) -> tuple[Sequence[Mapping[str, Any]], int]:
    """Return the messages of the first `calls` model calls, and the number of all calls."""
    answer_ends = [end for end, message in enumerate(messages, 1) if message["role"] == "assistant"]
    if len(answer_ends) <= calls:
        return messages, len(answer_ends)
    return messages[: answer_ends[calls - 1]], len(answer_ends)


SCORES: Final[dict[tuple[Hashable, Case], RunScore]] = {}
"""Cached scores, each of one run under one case. A score takes about 3 KB."""
MAX_SCORES: Final = 4_000

MessageReader = Callable[[], tuple[Sequence[Mapping[str, Any]], Sequence[float]]]
"""A function that reads messages and the Unix second of each message."""


class SessionReplays:
    """Replays of the first `calls` calls of sessions under cases, until `is_enough` returns True.

    `sessions` counts the sessions added. `scores` has a score for each session that was replayed
    under all cases.
    """

    def __init__(
        self, cases: Sequence[Case], calls: int, embedder: Embedder, is_enough: Callable[[], bool]
    ) -> None:
        self.cases = for_agents(cases)
        self.sessions = 0
        self.scores: list[RunScore] = []
        self._calls = calls
        self._embedder = embedder
        self._is_enough = is_enough

    def add(
        self,
        session_key: tuple[Hashable, ...],
        session: str,
        model: str,
        read_messages: MessageReader,
    ) -> None:
        """Replay one more session under the cases for which no score is cached.

        `session_key` identifies its messages, and `read_messages` reads them. If `is_enough`
        returns True before the session is replayed under all cases, the session gets no score.
        """
        self.sessions += 1
        run: Run | None = None
        scores: list[RunScore] = []
        for case in self.cases:
            score = SCORES.get((session_key, case))
            if score is None:
                if self._is_enough():
                    return
                if run is None:
                    all_messages, times = read_messages()
                    messages, _ = first_calls(all_messages, self._calls)
                    run = _session_run(session, model, messages, times)
                score = replay_run(run, [case], self._embedder, closed_loop=True)
                score = _without_call_sizes(score)
                SCORES[session_key, case] = score
                for oldest in list(SCORES)[:-MAX_SCORES]:
                    SCORES.pop(oldest, None)
            scores.append(score)
        all_cases = [score.cases[0] for score in scores]
        self.scores.append(dataclasses.replace(scores[0], cases=all_cases))

    @property
    def replayed_calls(self) -> int:
        """The number of calls of the sessions that are replayed under all cases."""
        return sum(score.cases[0].recall.invocations for score in self.scores)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on these sessions, each as a separate task; None if there are none."""
        if not self.scores:
            return None
        runs = [Run(score.id, score.source, score.model, []) for score in self.scores]
        return recommend(runs, self.cases, lambda _runs, _cases: self.scores)


def _session_run(
    name: str, model: str, messages: Sequence[Mapping[str, Any]], times: Sequence[float]
) -> Run:
    """Return a session as a run with a task of its own."""
    copies = [dict(message) for message in messages]
    sorted_times = list(accumulate(times, max))[: len(copies)]
    return Run(
        id=name, source="", model=model, messages=copies, named_task=name, times=sorted_times
    )


def _without_call_sizes(score: RunScore) -> RunScore:
    """Return the score without the tokens of each call. Keep those of the largest full prompt."""
    for case in score.cases:
        case.calls = []
    return dataclasses.replace(score, full_calls=[max(score.full_calls, default=0)])
