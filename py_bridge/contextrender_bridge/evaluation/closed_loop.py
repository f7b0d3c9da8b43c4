"""Replays with an agent that reacts: before each step, it fetches missing results again.

docs/evaluation.md, Closed loop, has the rule.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.plan.show_newest import NEWEST_TOKENS
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.engine.replay.recall_measures import unseen_tokens
from contextrender_bridge.evaluation.billing import Biller, Prompts
from contextrender_bridge.evaluation.progress import finish_steps
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import LoopScore, Prompt, Turn, turns_of

Render = Callable[[Sequence[Json], Sequence[float]], Prompt]
"""A function that renders a history, given its messages and the Unix second of each message.

Between calls, messages are only appended."""

REPEATED_CALL_ID: Final = "again_{}"
"""The ids of repeated calls."""


def replay_in_closed_loop(run: Run, render: Render, prompts: Prompts) -> LoopScore:
    """Replay a run. Before each step the agent repeats the calls whose results it misses."""
    loop = _Loop(run, render, prompts)
    for turn in turns_of(run):
        loop.step(turn)
        finish_steps()
    return loop.score


class _Loop:
    """A growing history of the recorded messages, with the repeated calls between them."""

    def __init__(self, run: Run, render: Render, prompts: Prompts) -> None:
        """Start an empty history.

        `run` has the recorded messages, `render` makes each call's prompt, and `prompts` counts the
        tokens that are billed.
        """
        self.score = LoopScore()
        self._run = run
        self._render = render
        self._prompts = prompts
        self._biller = Biller(prompts)
        self._calls = calls_of(run.messages)
        self._history: list[Json] = []
        self._times: list[float] = []
        # By the recorded position of each result: the positions in `_history` of the result and of
        # its copies, which the agent fetched later.
        self._copies: dict[int, list[int]] = {}
        # The number of recorded messages that are in `_history`.
        self._appended_count = 0

    def step(self, turn: Turn) -> None:
        """Replay one recorded model call, and add it to the score.

        Before its answer, call the model again and again, and repeat the calls whose results it
        misses. Stop when no result is missing that can be fetched, each at most once.
        """
        for position in range(self._appended_count, turn.position):
            self._append_recorded(position, self._run.messages[position])
        self._appended_count = turn.position
        fetched_results: set[int] = set()
        while True:
            missing_results = self._call_model(turn)
            # Fetch the missing results whose calls are recorded and not yet repeated in this step.
            repeatable = [
                position
                for position in missing_results
                if position in self._calls and position not in fetched_results
            ]
            if not repeatable:
                break
            self._fetch(repeatable)
            fetched_results.update(repeatable)
        # What is still missing has no recorded call, or is missing even after it was fetched.
        self.score.steps += 1
        self.score.steps_with_misses += bool(missing_results)
        self.score.output += self._prompts.tokens([self._run.messages[turn.position]])

    def _append_recorded(self, position: int, message: Json) -> None:
        """Append `message`, which was recorded at this position, or is a copy with another call id.

        If it is a result, add its position in the history to `_copies`.
        """
        if message["role"] == "tool":
            self._copies.setdefault(position, []).append(len(self._history))
        self._append(message, self._run.time(position))

    def _append(self, message: Json, time: float) -> None:
        """Append a message with its time, but not with an earlier time than the last message's."""
        self._history.append(message)
        self._times.append(max([time, *self._times[-1:]]))

    def _call_model(self, turn: Turn) -> list[int]:
        """Render and bill one prompt. Return the results that the agent misses, in order.

        A result is given by its recorded position. The agent misses it if the recorded answer uses
        a value of the result, and the prompt does not have this value. It also misses a newest
        result that the prompt does not show or, if the newest results are small, does not show
        complete.
        """
        let_requests_run()
        prompt = self._render(self._history, self._times)
        self._biller.add(self._prompts.units_of(prompt.messages), self._run.time(turn.position))
        self.score.bills = self._biller.bills
        self.score.policy_usage = self.score.policy_usage.plus(prompt.usage)

        # Results with a used value that is not visible.
        used_values = frozenset[str]().union(*(event.tokens for event in turn.events))
        missing_values = unseen_tokens(used_values, prompt.messages)
        missing_results = {event.position for event in turn.events if event.tokens & missing_values}

        # Newest results that the prompt shows nowhere, neither the recorded result nor a copy that
        # was fetched later.
        newest = [self._run.messages[position] for position in turn.newest]
        are_small = self._prompts.tokens(newest) <= NEWEST_TOKENS
        shown_results = prompt.complete if are_small else prompt.visible
        missing_results |= {
            position for position in turn.newest if shown_results.isdisjoint(self._copies[position])
        }
        return sorted(missing_results)

    def _fetch(self, positions: Sequence[int]) -> None:
        """Append one answer that repeats the calls of these results, and copies of the results."""
        unused_number = len(self._history)  # the history grows, so each id is used only once
        call_ids = {
            position: REPEATED_CALL_ID.format(number)
            for number, position in enumerate(positions, unused_number)
        }
        calls = [{**self._calls[p][1], "id": call_id} for p, call_id in call_ids.items()]
        message: Json = {"role": "assistant", "content": "", "tool_calls": calls}
        self._append(message, time=0.0)  # at the time of the last message
        for position, call_id in call_ids.items():
            copy = {**self._run.messages[position], "tool_call_id": call_id}
            self._append_recorded(position, copy)
        self.score.refetched += len(positions)
        self.score.output += self._prompts.tokens([message])


def calls_of(messages: Sequence[Mapping[str, Any]]) -> dict[int, tuple[int, Json]]:
    """Map the position of each tool result to its call, after the position of the calling message.

    If several calls have the same id, a result belongs to the first of them without a result.
    """
    open_calls: dict[str, list[tuple[int, Json]]] = {}
    calls_by_result: dict[int, tuple[int, Json]] = {}
    for position, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            open_calls.setdefault(str(call.get("id")), []).append((position, dict(call)))
        if message["role"] == "tool":
            calls = open_calls.get(str(message.get("tool_call_id")))
            if calls:
                calls_by_result[position] = calls.pop(0)
    return calls_by_result
