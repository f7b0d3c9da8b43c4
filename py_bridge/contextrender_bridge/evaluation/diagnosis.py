"""Finds out why a recorded session went wrong. No server is needed.

An agent that compacts continues without the results that it had read. A loss is a later turn whose
answer used a value that its prompt no longer had, or read a result again. Long because a loss has
its sentence, its turns and its cost.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.replay.recall_measures import (
    RecallEvent,
    RecallTrace,
    unseen_tokens,
)
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.closed_loop import calls_of
from contextrender_bridge.evaluation.runs import Run, RunCompaction, compactions_of
from contextrender_bridge.printing import count_of

ASKED_AGAIN: Final = "asked again"
USED_VALUE: Final = "used"
MAX_NAMED_VALUES: Final = 3
"""The number of values that a sentence names."""
MAX_CALL_CHARS: Final = 60
"""The number of characters of a call that a sentence shows."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A turn that needed values that a compaction had dropped. Turns count the answers from 1.

    At turn `read_turn`, the tool call `call` returned the `values`. Its result was dropped after
    turn `dropped_turn`. If the agent read the result again, `repeated_turn` is the turn, `tokens`
    the tokens this took, and `dollars` their price. `kind` is USED_VALUE or ASKED_AGAIN.
    """

    turn: int
    kind: str
    call: str
    values: tuple[str, ...]
    read_turn: int
    dropped_turn: int
    repeated_turn: int | None = None
    tokens: int = 0
    dollars: float | None = None

    @property
    def sentence(self) -> str:
        """The loss in words: what the turn used, when it was read and dropped, and the cost."""
        values = ", ".join(self.values[:MAX_NAMED_VALUES])
        if (hidden_count := len(self.values) - MAX_NAMED_VALUES) > 0:
            values += f" and {hidden_count:,} more"
        if self.repeated_turn:
            event = f"Turn {self.turn} {self.kind} for {self.call}"
            event += f" ({values})" if values else ""
            cost = f"; reading it again took {self.tokens:,} tokens"
            cost += f" (${self.dollars:,.4f})" if self.dollars is not None else ""
        else:
            event = f"Turn {self.turn} {self.kind} {values}, which its prompt no longer had"
            cost = ""
        return (
            f"{event}. It had been read at turn {self.read_turn} by {self.call} and was dropped at "
            f"turn {self.dropped_turn}, when the agent compacted its history{cost}."
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The losses of a session in order, and how many turns and compactions the session has."""

    turns: int
    compactions: int
    losses: Sequence[Loss]

    @property
    def sentence(self) -> str:
        """The diagnosis in words: why nothing was lost, or the first loss and the cost of all."""
        if not self.compactions:
            return (
                "Nothing was lost: the agent never compacted its history, so each of its "
                f"{self.turns:,} turns had everything that came before."
            )
        if not self.losses:
            return (
                f"Nothing was lost: after {count_of(self.compactions, 'compaction')} no answer "
                "used, or asked again for, a value that its prompt no longer had."
            )
        first = self.losses[0].sentence
        if len(self.losses) == 1:
            return first
        repeated = [loss for loss in self.losses if loss.repeated_turn]
        tokens = sum(loss.tokens for loss in repeated)
        dollars = sum(loss.dollars or 0.0 for loss in repeated)
        cost = f" (${dollars:,.2f})" if dollars else ""
        return (
            f"{first} In all, a value was missing {len(self.losses):,} times; read again: "
            f"{count_of(len(repeated), 'result')}, {tokens:,} tokens{cost}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as plain values."""
        losses = [asdict(loss) | {"sentence": loss.sentence} for loss in self.losses]
        return {
            "sentence": self.sentence,
            "turns": self.turns,
            "compactions": self.compactions,
            "losses": losses,
        }


def diagnose(runs: Sequence[Run]) -> Diagnosis:
    """Return the losses of a session. Its runs are the histories between its compactions."""
    compactions = compactions_of(runs)
    losses = [loss for each in compactions for loss in _CompactedHistory(each).losses()]
    losses.sort(key=lambda loss: loss.turn)
    unique_losses: dict[tuple[int, str], Loss] = {}
    for loss in losses:
        # The histories of two compactions overlap, so the second one finds losses of the first.
        unique_losses.setdefault((loss.turn, loss.call), loss)
    # `before` and `after` are the full history up to the next compaction. The longest full history
    # has all turns of the session.
    turn_counts = [_answer_count([*each.before, *each.after]) for each in compactions]
    turn_counts += [_answer_count(run.messages) for run in runs]
    longest_history_turns = max(turn_counts, default=0)
    return Diagnosis(longest_history_turns, len(compactions), list(unique_losses.values()))


class _CompactedHistory:
    """A session's full history around a compaction, as if the agent had not compacted it."""

    def __init__(self, compaction: RunCompaction) -> None:
        """Create the history: the messages before and after `compaction`, without the summary."""
        self._compaction = compaction
        history = [*compaction.before, *compaction.after]
        self._before_count = len(compaction.before)
        are_answers = (int(message["role"] == "assistant") for message in history)
        # The item at index n is the number of answers among the first n messages.
        self._turn_counts: list[int] = list(accumulate(are_answers, initial=0))
        self._calls = calls_of(history)

    def losses(self) -> Iterator[Loss]:
        """Yield a loss for each result from before the compaction that a later turn lacked.

        A turn lacks a result if the answer uses a value of the result that the summary does not
        have. Only the first turn that lacks a result is a loss.
        """
        # The trace knows the results added so far, and returns an event for each use of one.
        trace = RecallTrace()
        for message in self._compaction.before:
            trace.add(message)
        reported_results: set[int] = set()
        for position, message in enumerate(self._compaction.after):
            for event in trace.add(message):
                is_from_before = event.position < self._before_count
                if not is_from_before or event.position in reported_results:
                    continue
                missing_values = unseen_tokens(event.tokens, self._compaction.summary)
                if missing_values:
                    reported_results.add(event.position)
                    yield self._loss(event, missing_values, position)

    def _loss(self, event: RecallEvent, missing_values: frozenset[str], position: int) -> Loss:
        """Return the loss of an answer, which used `missing_values` of the result in `event`.

        The answer is message number `position` after the compaction. If a result between the
        compaction and the answer has a missing value, the agent had read the value again: the loss
        is then at the turn that did so.
        """
        loss = Loss(
            turn=self._turn_of(self._before_count + position),
            kind=USED_VALUE,
            call=call_text(self._call(event.position)),
            values=tuple(sorted(missing_values)),
            read_turn=self._calling_turn(event.position),
            dropped_turn=self._turn_counts[self._before_count],  # the last before the compaction
        )
        reread_position = _repeated_result(self._compaction.after[:position], missing_values)
        return loss if reread_position is None else self._as_reread(loss, reread_position)

    def _as_reread(self, loss: Loss, position: int) -> Loss:
        """Return the loss of a value that the agent read again.

        The result that the agent read is message number `position` after the compaction. The loss
        gets the tokens and the cost of this result and its call.
        """
        compaction = self._compaction
        call = self._call(self._before_count + position)
        counter = counter_for(compaction.model or None)
        tokens = counter.message(compaction.after[position]) + (counter.call(call) if call else 0)
        price = Prices.of().of_model(compaction.model)
        repeated_turn = self._calling_turn(self._before_count + position)
        return replace(
            loss,
            turn=repeated_turn,  # this turn, not the later use, is the first that needed the value
            kind=ASKED_AGAIN,
            repeated_turn=repeated_turn,
            tokens=tokens,
            dollars=tokens * price.uncached if price else None,
        )

    def _turn_of(self, position: int) -> int:
        """Return the turn of the message at this position of the history."""
        # Count the answers up to this message, itself included.
        return self._turn_counts[position + 1]

    def _calling_turn(self, result: int) -> int:
        """Return the turn whose answer called for the result at this position.

        If the call is unknown, return the number of answers before the result.
        """
        calling_message, _ = self._calls.get(result, (result, {}))
        return self._turn_of(calling_message)

    def _call(self, result: int) -> Json:
        """Return the call of the result at this position; empty if it is unknown."""
        _, call = self._calls.get(result, (result, {}))
        return call


def _repeated_result(messages: Sequence[Json], missing_values: frozenset[str]) -> int | None:
    """Return the position of the first tool result that has one of these values, or None."""
    for position, message in enumerate(messages):
        has_no_value = unseen_tokens(missing_values, [message]) == missing_values
        if message["role"] == "tool" and not has_no_value:
            return position
    return None


def _answer_count(messages: Sequence[Json]) -> int:
    """Return how many messages are answers."""
    return sum(message["role"] == "assistant" for message in messages)


def call_text(call: Mapping[str, Any]) -> str:
    """Return a call's tool and the beginning of its arguments, in one short line."""
    function = call.get("function") or {}
    text = f"{function.get('name') or 'a tool'} {function.get('arguments') or ''}".strip()
    text = " ".join(text.split())
    return text if len(text) <= MAX_CALL_CHARS else f"{text[: MAX_CALL_CHARS - 1]}…"
