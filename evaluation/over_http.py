"""Replaying a run through a server, as an agent would: one request a model call."""

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.replies import RenderView

from engine.costs import Usage
from engine.parameters import budget_name
from engine.text.tokens import counter_for
from evaluation.cases import Case
from evaluation.prompts import Prompts
from evaluation.runs import Run
from evaluation.scores import Prompt, RunScore, Turn, Watch, turns_of
from evaluation.scoring import Scorer, score_of


class HttpReplay:
    """Replays through one client, each run and case in a session of its own.

    The sessions stay until `forget`, so that their calls can be explained.
    """

    def __init__(self, client: ContextRender) -> None:
        """Sends everything through `client`."""
        self._client = client
        self._sessions: list[str] = []

    def replay_run(self, run: Run, cases: Sequence[Case], watch: Watch | None = None) -> RunScore:
        """Renders the history before every assistant message under every case, and scores it.

        Raises CommandError, naming the run, when the server refuses.
        """
        turns = turns_of(run)
        prompts = Prompts(counter_for(run.model or None), run.tools)
        scorers = [Scorer(run, case, prompts) for case in cases]
        sessions = [f"replay-{uuid.uuid4().hex}" for _ in cases]
        self._sessions += sessions
        for scorer, session in zip(scorers, sessions, strict=True):
            case = scorer.score.case
            for turn in turns:
                prompt = self._prompt(session, run, case, turn)
                scorer.add(turn, prompt)
                if watch is not None:
                    watch(case, turn, prompt)
        score = score_of(run, [scorer.score for scorer in scorers], prompts)
        score.sessions = sessions
        return score

    def forget(self) -> None:
        """Deletes the sessions of all runs so far."""
        while self._sessions:
            session = self._sessions.pop()
            with suppress(ContextRenderError):
                self._client.delete_session(session)

    def _prompt(self, session: str, run: Run, case: Case, turn: Turn) -> Prompt:
        if not turn.position:
            return Prompt(0, 0, 0, frozenset(), [])
        start = time.perf_counter()
        try:
            reply = self._client.render(
                session,
                run.messages[: turn.position],
                budget=budget_name(case.budget),
                policy=case.policy,
                parameters=case.changed or None,
                model=run.model or None,
                live=case.live,
            )
        except ContextRenderError as error:
            where = f"run {run.id!r}, call {turn.number}"
            raise CommandError(f"{where}: {error.message} ({error.code})") from error
        tokens = reply["tokens"]
        return Prompt(
            tokens["before"],
            tokens["after"],
            tokens["outside"],
            frozenset(reply["visible"]),
            reply["messages"] or [],
            _usage(reply),
            bool(reply["warnings"]),
            time.perf_counter() - start,
            frozenset(reply["visible"]) | {each["position"] for each in reply["replaced"]},
            budget=reply["budget"],
        )


def _usage(reply: RenderView) -> Usage:
    used = reply["usage"]
    return Usage(
        prompt=used["model_tokens_in"],
        output=used["model_tokens_out"],
        embedded=used["embedding_tokens"],
    )
