"""What every past model call of a branch showed, recomputed from what is stored of it.

Nothing here is stored: a call's rendering follows from the messages before it and the settings.
A `Past` reads the stored events once and only grows; it is a cache of one process.
"""

import threading
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from engine.costs import Usage
from engine.embeddings import Embedder
from engine.history import NO_CALL, History
from engine.measures import recall_events
from engine.relevance import RESULT_CHARACTERS
from engine.render import Rendered, render_call
from engine.rendering import Shown
from engine.request import RenderSettings
from engine.stored import Fields, append_stored
from engine.tokens import TokenCounter, content_text
from engine.values import extract_values
from engine.vectors import Vectors

MOST_TRAILS = 3
MOST_PASTS = 8
MOST_BYTES = 128 * 2**20


@dataclass(slots=True, frozen=True)
class Step:
    """One model call: before turn `turn`, with `messages` messages and `results` results recorded.

    Tokens `before` and `after` are the history's within the budget's rule, `outside` those beside
    it. `complete` and `replaced` are runs of result numbers: first, length, first, length.
    `needed` are the results the turn then repeats a value of, `seen` how many of them it had.
    """

    turn: int
    messages: int
    results: int
    before: int
    after: int
    outside: int
    retained: int
    complete: tuple[int, ...]
    replaced: tuple[int, ...]
    needed: tuple[int, ...]
    seen: int
    usage: Usage
    full: Usage


@dataclass(slots=True)
class Trail:
    """The calls of a branch under one setting, as far as they have been recomputed."""

    settings: RenderSettings
    steps: list[Step] = field(default_factory=list)
    prompt: list[tuple[Shown, int]] = field(default_factory=list)
    embedded: int = 0


@dataclass(slots=True)
class Trails:
    """Trails that advance together over one growing history."""

    trails: list[Trail]
    history: History = field(default_factory=History)
    full_prompt: int = 0


class Past:
    """One branch's stored events, and what its calls showed.

    Only the holder of `lock` may use it.
    """

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        self.lock = threading.Lock()
        self.whole = History()
        self._embedder = _Remembering(embedder)
        self._counter = counter
        self._rows: list[list[Fields]] = []
        self._invocations: list[int] = []
        self._needed: dict[int, tuple[int, ...]] = {}
        self._trails: OrderedDict[tuple[RenderSettings, ...], Trails] = OrderedDict()
        self._earlier = History()

    @property
    def waiting(self) -> bool:
        """Whether the model has yet to answer what came last."""
        return bool(self._rows) and self.whole.roles[-1] != "assistant"

    @property
    def turns(self) -> int:
        """The number of the last call: the next one's, unless the model spoke last."""
        return len(self._invocations) + self.waiting

    def extend(self, stored: Iterable[Fields], first: int) -> None:
        """Appends the fields of events from number `first` on; those known already are skipped."""
        fresh = list(stored)[self.whole.events - first :]
        if not fresh:
            return
        for position, group in groupby(fresh, key=lambda fields: fields["position"]):
            rows = list(group)
            self._rows.append(rows)
            if rows[0].get("role") == "assistant":
                self._invocations.append(position)
        append_stored(self.whole, fresh, self._embedder.name)
        needed: dict[int, list[int]] = {}
        for event in recall_events([message or {} for message in self.whole.messages]):
            needed.setdefault(event.turn, []).append(event.result)
        self._needed = {turn: tuple(results) for turn, results in needed.items()}

    def messages_before(self, turn: int) -> int | None:
        """How many messages there were before a call; None if there was none such."""
        if 1 <= turn <= len(self._invocations):
            return self._invocations[turn - 1]
        return len(self._rows) if turn == len(self._invocations) + 1 else None

    def fields_of(self, message: int) -> Sequence[Fields]:
        """The stored fields of a message and its calls."""
        return self._rows[message]

    def position_of(self, event: int) -> int:
        """The message an event belongs to."""
        return bisect_right(self.whole.first_events, event) - 1

    def used_at(self, turn: int) -> list[int]:
        """The results that a turn's message drew on, each once."""
        if not 1 <= turn <= len(self._invocations):
            return []
        message = self._invocations[turn - 1]
        first = self.whole.first_events[message]
        uses = self.whole.reuse.uses
        start = bisect_left(uses, first, key=lambda use: use.operation)
        stop = bisect_left(uses, first + len(self._rows[message]), key=lambda use: use.operation)
        return sorted({use.result for use in uses[start:stop]})

    def text_of(self, message: int) -> str:
        """The text of a message."""
        original = self.whole.messages[message]
        return content_text(original.get("content")) if original else ""

    def arguments_of(self, result: int) -> str:
        """The arguments of the call a result answered."""
        event = self.whole.results.call_event[result]
        message = self.whole.results.call_message[result]
        if event == NO_CALL:
            return ""
        return str(self._rows[message][event - self.whole.first_events[message]]["text"])

    def holders_of(self, value: str) -> list[int]:
        """Every result that holds a value, by the rules of Tool-Flow Analysis."""
        found = []
        for result, message in enumerate(self.whole.results.message):
            text = self.text_of(message)
            if value in text and value in extract_values(text):
                found.append(result)
        return found

    def history_before(self, messages: int) -> History:
        """The history as it was after its first `messages` messages; do not keep it."""
        if len(self._earlier) > messages:
            self._earlier = History()
        self._grow(self._earlier, messages)
        return self._earlier

    def render(self, history: History, settings: RenderSettings) -> Rendered:
        """What a call with that history shows."""
        return render_call(
            history,
            budget=settings.budget,
            policy=settings.policy,
            parameters=settings.parameters,
            counter=self._counter,
            embedder=self._embedder,
            text_of=self.text_of,
        )

    def steps(
        self, settings: Sequence[RenderSettings], last: int, deadline: float
    ) -> list[list[Step]]:
        """The calls up to `last` under each of the settings.

        Fewer, if the deadline (`time.monotonic()`) comes first.
        """
        group = self._trails.setdefault(tuple(settings), Trails([Trail(one) for one in settings]))
        self._trails.move_to_end(tuple(settings))
        while len(self._trails) > MOST_TRAILS:
            self._trails.popitem(last=False)
        first = group.trails[0]
        spoken = len(self._invocations)
        while len(first.steps) < min(last, spoken):
            for trail, step in zip(group.trails, self._advance(group), strict=True):
                trail.steps.append(step)
            if time.monotonic() > deadline:
                break
        known = [trail.steps[:last] for trail in group.trails]
        if len(first.steps) == spoken < self.turns <= last:
            for steps, step in zip(known, self._advance(group), strict=True):
                steps.append(step)
        return known

    def _grow(self, history: History, messages: int) -> None:
        for rows in self._rows[len(history) : messages]:
            append_stored(history, rows, self._embedder.name)

    def _advance(self, group: Trails) -> list[Step]:
        """The next call under each setting."""
        turn = len(group.trails[0].steps) + 1
        messages = self.messages_before(turn)
        assert messages is not None
        self._grow(group.history, messages)
        made = [self._step(group, trail, turn) for trail in group.trails]
        if turn <= len(self._invocations):
            group.full_prompt = group.history.total_tokens
            for trail, (_, prompt) in zip(group.trails, made, strict=True):
                trail.prompt = prompt
        return [step for step, _ in made]

    def _step(self, group: Trails, trail: Trail, turn: int) -> tuple[Step, list[tuple[Shown, int]]]:
        done = turn <= len(self._invocations)
        history = group.history
        messages, results = len(history), len(history.results)
        rendered = self.render(history, trail.settings)
        prompt = [(item, self._tokens(rendered, item)) for item in rendered.items]
        needed = self._needed.get(turn, ())
        taken = set(rendered.plan.taken)
        output = sum(row["tokens"] for row in self._rows[messages]) if done else 0
        retained = rendered.plan.retained
        usage = Usage(
            retained.outside_tokens + rendered.tokens_after,
            _common(trail.prompt, prompt),
            output,
            self._embedded(trail, rendered, done),
        )
        step = Step(
            turn,
            messages,
            results,
            rendered.tokens_before,
            rendered.tokens_after,
            retained.outside_tokens,
            retained.tokens,
            runs(rendered.plan.taken),
            runs(rendered.plan.replaced),
            needed,
            sum(result in taken for result in needed),
            usage.plus(rendered.plan.usage),
            Usage(history.total_tokens, group.full_prompt, output),
        )
        return step, prompt

    def _tokens(self, rendered: Rendered, item: Shown) -> int:
        """Tokens of one message of a rendering."""
        head, *calls = self._rows[item.message]
        history = rendered.view.history
        if item.text is not None:
            own = rendered.view.counter.message({"content": item.text})
        else:
            own = history.text_tokens[item.message] or int(head["tokens"])
        return own + sum(int(calls[call]["tokens"]) for call in item.calls)

    def _embedded(self, trail: Trail, rendered: Rendered, done: bool) -> int:
        """Tokens embedded for this call: the query, and results not embedded before.

        As if nothing had been embedded for any other purpose.
        """
        if not rendered.embedded_tokens:
            return 0
        history = rendered.view.history
        latest = {history.last_user, history.last_assistant} - {-1}
        total = sum(history.text_tokens[message] for message in latest)
        for result in range(trail.embedded, len(history.results)):
            size = len(self.text_of(history.results.message[result])) or 1
            share = min(1.0, RESULT_CHARACTERS / size)
            total += round(history.results.tokens[result] * share)
        if done:
            trail.embedded = len(history.results)
        return total

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        grown = sum(group.history.nbytes for group in self._trails.values())
        return self.whole.nbytes + self._earlier.nbytes + grown


class Pasts:
    """The pasts kept in process, the least recently used let go; safe between threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: OrderedDict[object, Past] = OrderedDict()

    def get(self, key: object, embedder: Embedder, counter: TokenCounter) -> Past:
        """The past of that key, a new one if it is not held."""
        with self._guard:
            past = self._held.setdefault(key, Past(embedder, counter))
            self._held.move_to_end(key)
            while len(self._held) > 1 and (
                len(self._held) > MOST_PASTS or self._nbytes() > MOST_BYTES
            ):
                self._held.popitem(last=False)
            return past

    def _nbytes(self) -> int:
        return sum(past.nbytes for past in self._held.values())


def runs(results: Iterable[int]) -> tuple[int, ...]:
    """Numbers as runs: the first of each run of neighbours, and its length."""
    found: list[int] = []
    for result in sorted(results):
        if found and found[-2] + found[-1] == result:
            found[-1] += 1
        else:
            found += [result, 1]
    return tuple(found)


class _Remembering:
    """An embedder that keeps what it made, so that each text is embedded once."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self._inner.name

    def embed(self, texts: Sequence[str]) -> Vectors:
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        if fresh:
            self._known.update(zip(fresh, self._inner.embed(fresh), strict=True))
        return np.stack([self._known[text] for text in texts])


def _common(previous: list[tuple[Shown, int]], current: list[tuple[Shown, int]]) -> int:
    """Tokens of the messages with which both prompts begin."""
    total = 0
    for (before, tokens), (now, _) in zip(previous, current, strict=False):
        if before != now:
            break
        total += tokens
    return total
