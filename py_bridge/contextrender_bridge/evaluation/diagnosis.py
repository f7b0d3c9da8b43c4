"""Answers "why did it go wrong?" for a recorded session, with no server in the loop.

An agent that compacts goes on without what it had read. A loss is a turn after that whose answer
used a value that its prompt no longer held, or asked again for a result that had been read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from contextrender_bridge.evaluation.runs import Compaction, Run, compactions_of

ASKED_AGAIN: Final = "asked again"
USED: Final = "used"
NAMED: Final = 3
"""Values that a sentence names at most."""
LONGEST: Final = 60
"""Characters of a call that a sentence shows."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A turn that lacked a value. Turns count the answers of the whole session, from 1.

    The `call` brought the `values` at turn `read`; its result left the prompt after turn `left`. If
    the agent read it `again`, that cost `tokens`, and `dollars` if the model has a price.
    """

    turn: int
    kind: str
    call: str
    values: tuple[str, ...]
    read: int
    left: int
    again: int | None = None
    tokens: int = 0
    dollars: float | None = None

    @property
    def sentence(self) -> str:
        """The loss in words."""
        named = ", ".join(self.values[:NAMED])
        more = len(self.values) - NAMED
        values = f"{named} and {more:,} more" if more > 0 else named
        what = f"turn {self.turn} {self.kind}" + (f" for {self.call}" if self.again else "")
        held = f" ({values})" if values else ""
        if not self.again:
            what += f" {values}, which its prompt no longer held"
            held = ""
        cost = f"; reading it again cost {self.tokens:,} tokens" if self.again else ""
        if self.again and self.dollars is not None:
            cost += f" (${self.dollars:,.4f})"
        return (
            f"{what[0].upper()}{what[1:]}{held}. It had been read at turn {self.read} by "
            f"{self.call} and left at turn {self.left}, when the agent compacted its history{cost}."
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The losses of a session in order, among so many turns and compactions."""

    turns: int
    compactions: int
    losses: Sequence[Loss]

    @property
    def sentence(self) -> str:
        """The answer in words: the first loss, and what all of them cost."""
        if not self.losses:
            if not self.compactions:
                return (
                    f"Nothing was lost: the agent never compacted its history, so each of its "
                    f"{self.turns:,} turns had everything that came before."
                )
            return (
                f"Nothing was lost: after {self.compactions:,} compactions no answer used, or "
                "asked again for, a value that its prompt no longer held."
            )
        again = [loss for loss in self.losses if loss.again]
        if len(self.losses) == 1:
            return self.losses[0].sentence
        tokens = sum(loss.tokens for loss in again)
        dollars = sum(loss.dollars or 0.0 for loss in again)
        cost = f" (${dollars:,.2f})" if dollars else ""
        return (
            f"{self.losses[0].sentence} In all, {len(self.losses):,} times a value was gone; "
            f"{len(again):,} results were read again, {tokens:,} tokens{cost}."
        )

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as plain values."""
        losses = [asdict(loss) | {"sentence": loss.sentence} for loss in self.losses]
        return {
            "sentence": self.sentence,
            "turns": self.turns,
            "compactions": self.compactions,
            "losses": losses,
        }


def diagnose(runs: Sequence[Run]) -> Diagnosis:
    """Return what a session lost. Its runs are the histories between its agent's compactions."""
    found = compactions_of(runs)
    losses = [loss for one in found for loss in _losses(one)]
    losses.sort(key=lambda loss: loss.turn)
    once = list({(loss.turn, loss.call): loss for loss in reversed(losses)}.values())[::-1]
    lengths = [_answers([*one.before, *one.after]) for one in found]
    lengths += [_answers(run.messages) for run in runs]
    return Diagnosis(max(lengths, default=0), len(found), once)


def _losses(compaction: Compaction) -> Iterator[Loss]:
    """Yield the turns after a compaction that lacked something from before."""
    kept, trace = len(compaction.before), RecallTrace()
    whole = [*compaction.before, *compaction.after]
    turns = [0]
    for message in whole:
        turns.append(turns[-1] + (message["role"] == "assistant"))
    for message in compaction.before:
        trace.add(message)
    calls, askers = calls_of(whole), _askers(whole)
    told: set[int] = set()
    for position, message in enumerate(compaction.after):
        events = [event for event in trace.add(message) if event.position < kept]
        if message["role"] != "assistant":
            continue
        for event in events:
            lacking = unseen_tokens(event.tokens, compaction.summary)
            if not lacking or event.position in told:
                continue
            told.add(event.position)
            yield _loss(compaction, event, lacking, position, turns, calls, askers)


def _loss(
    compaction: Compaction,
    event: RecallEvent,
    lacking: frozenset[str],
    position: int,
    turns: Sequence[int],
    calls: Mapping[int, Json],
    askers: Mapping[str, int],
) -> Loss:
    kept = len(compaction.before)
    source = calls.get(event.position, {})
    read = askers.get(str(source.get("id")), event.position)
    again = _brought_again(compaction, lacking, position)
    turn, tokens, dollars = turns[kept + position + 1], 0, None
    if again is not None:
        counter = counter_for(compaction.model or None)
        call = calls.get(kept + again, {})
        turn = turns[askers.get(str(call.get("id")), kept + again) + 1]
        tokens = counter.message(compaction.after[again]) + (counter.call(call) if call else 0)
        price = Prices.of().of_model(compaction.model)
        dollars = tokens * price.fresh if price else None
    return Loss(
        turn,
        USED if again is None else ASKED_AGAIN,
        call_text(source),
        tuple(sorted(lacking)),
        turns[read + 1],
        turns[kept],
        None if again is None else turn,
        tokens,
        dollars,
    )


def _brought_again(compaction: Compaction, lacking: frozenset[str], position: int) -> int | None:
    """Return the result after the compaction that first brought such a value before `position`."""
    for place, message in enumerate(compaction.after[:position]):
        if message["role"] == "tool" and unseen_tokens(lacking, [message]) != lacking:
            return place
    return None


def _askers(messages: Sequence[Json]) -> dict[str, int]:
    """Return by a call's id the position of the message that made it."""
    return {
        str(call.get("id")): position
        for position, message in enumerate(messages)
        for call in message.get("tool_calls") or ()
    }


def _answers(messages: Sequence[Json]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def call_text(call: Mapping[str, Any]) -> str:
    """Return a call in a few words: its tool, and the beginning of its arguments."""
    told = call.get("function") or {}
    text = f"{told.get('name') or 'a tool'} {told.get('arguments') or ''}".strip()
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
