"""Replays in which the agent reacts: what it needs and does not see, it fetches again first.

The rule is written down in docs/evaluation.md, Closed loop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.plan.show_newest import NEWEST_TOKENS
from contextrender_bridge.engine.replay import pause
from contextrender_bridge.engine.replay.recall_measures import unseen_tokens
from contextrender_bridge.evaluation.billing import Biller, Prompts
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import LoopScore, Prompt, Turn, turns_of

Render = Callable[[Sequence[Json], Sequence[float]], Prompt]
"""Makes the prompt of a history, of which each message came at a second; both only ever grow."""

AGAIN: Final = "again_{}"
"""Ids of calls issued again."""


def replay_in_closed_loop(run: Run, render: Render, prompts: Prompts) -> LoopScore:
    """A run's steps, each after the calls it takes to have in view what it draws on."""
    loop = _Loop(run, render, prompts)
    for turn in turns_of(run):
        loop.step(turn)
    return loop.score


class _Loop:
    """The history as it grows: the recorded messages, and calls issued again between them."""

    def __init__(self, run: Run, render: Render, prompts: Prompts) -> None:
        self.score = LoopScore()
        self._run = run
        self._render = render
        self._prompts = prompts
        self._biller = Biller(prompts)
        self._calls = calls_of(run.messages)
        self._history: list[Json] = []
        self._times: list[float] = []
        self._copies: dict[int, list[int]] = {}
        self._read = 0

    def step(self, turn: Turn) -> None:
        """One recorded step: fetches each result at most once, then goes on as recorded."""
        self._take(turn.position)
        fetched: set[int] = set()
        while True:
            lacking = self._call(turn)
            again = [at for at in lacking if at in self._calls and at not in fetched]
            if not again:
                break
            self._fetch(again)
            fetched.update(again)
        self.score.steps += 1
        self.score.without += bool(lacking)
        self.score.output += self._prompts.tokens([self._run.messages[turn.position]])

    def _take(self, position: int) -> None:
        """Appends the recorded messages before a position."""
        for at in range(self._read, position):
            self._append(at, self._run.messages[at])
        self._read = position

    def _append(self, at: int, message: Json) -> None:
        if message["role"] == "tool":
            self._copies.setdefault(at, []).append(len(self._history))
        self._keep(message, self._run.time(at))

    def _keep(self, message: Json, time: float) -> None:
        self._history.append(message)
        self._times.append(max([time, *self._times[-1:]]))

    def _call(self, turn: Turn) -> list[int]:
        """One model call; positions of the results it lacks, as recorded, in their order."""
        pause()
        prompt = self._render(self._history, self._times)
        units, _ = self._prompts.send([], prompt.messages)
        self._biller.add(units, self._run.time(turn.position))
        self.score.bills = self._biller.bills
        self.score.own = self.score.own.plus(prompt.usage)
        needed = frozenset[str]().union(*(event.tokens for event in turn.events))
        unseen = unseen_tokens(needed, prompt.messages)
        lacking = {event.position for event in turn.events if event.tokens & unseen}
        newest = [self._run.messages[at] for at in turn.newest]
        wants_all = self._prompts.tokens(newest) <= NEWEST_TOKENS
        seen = prompt.visible if wants_all else prompt.shown
        lacking |= {at for at in turn.newest if seen.isdisjoint(self._copies[at])}
        return sorted(lacking)

    def _fetch(self, positions: Sequence[int]) -> None:
        """Issues the calls of these results again, all in one message, and appends the results."""
        ids = [AGAIN.format(len(self._history) + number) for number in range(len(positions))]
        pairs = list(zip(ids, positions, strict=True))
        calls = [{**self._calls[at], "id": id} for id, at in pairs]
        said: Json = {"role": "assistant", "content": "", "tool_calls": calls}
        self._keep(said, 0.0)
        for id, at in pairs:
            self._append(at, {**self._run.messages[at], "tool_call_id": id})
        self.score.refetched += len(positions)
        self.score.output += self._prompts.tokens([said])


def calls_of(messages: Sequence[Mapping[str, Any]]) -> dict[int, Json]:
    """The call that each result answers, by the result's position: the first open one of its id."""
    waiting: dict[str, list[Json]] = {}
    found: dict[int, Json] = {}
    for position, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            waiting.setdefault(str(call.get("id")), []).append(dict(call))
        if message["role"] == "tool":
            calls = waiting.get(str(message.get("tool_call_id")))
            if calls:
                found[position] = calls.pop(0)
    return found
