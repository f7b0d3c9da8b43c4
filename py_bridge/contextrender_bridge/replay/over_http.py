"""Replaying a run through a server, as an agent would: one request a model call."""

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress

from contextrender_bridge.client import ContextRender, Json
from contextrender_bridge.client_errors import ContextRenderError
from contextrender_bridge.errors import CommandError
from contextrender_bridge.replay.runs import Run
from contextrender_bridge.replay.scores import (
    Case,
    CaseScore,
    Prompt,
    RunScore,
    Turn,
    Watch,
    turns_of,
)


class HttpReplay:
    """Replays through one client, each run and case in a session of its own.

    The sessions stay until `forget`, so that their calls can be explained.
    """

    def __init__(self, client: ContextRender) -> None:
        """Sends everything through `client`."""
        self._client = client
        self.sessions: dict[tuple[str, Case], str] = {}

    def replay_run(self, run: Run, cases: Sequence[Case], watch: Watch | None = None) -> RunScore:
        """Renders the history before every assistant message under every case, and scores it.

        Raises CommandError, naming the run, when the server refuses.
        """
        turns = turns_of(run)
        scores = [CaseScore(case) for case in cases]
        for score in scores:
            session = f"replay-{uuid.uuid4().hex}"
            self.sessions[run.id, score.case] = session
            for turn in turns:
                start = time.perf_counter()
                prompt = self._prompt(session, run, score.case, turn)
                score.add(turn, prompt, time.perf_counter() - start)
                if watch is not None:
                    watch(score.case, turn, prompt)
        return RunScore(run.id, run.source, run.model, scores)

    def forget(self) -> None:
        """Deletes the sessions of all runs so far."""
        while self.sessions:
            _, session = self.sessions.popitem()
            with suppress(ContextRenderError):
                self._client.delete_session(session)

    def _prompt(self, session: str, run: Run, case: Case, turn: Turn) -> Prompt:
        try:
            reply: Json = self._client.render(
                session,
                run.messages[: turn.position],
                budget=case.budget,
                policy=case.policy,
                model=run.model or None,
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
            reply["messages"],
        )
