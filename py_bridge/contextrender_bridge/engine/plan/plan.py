"""What a policy shows: retained text, results, and the messages to walk to for them.

User and assistant text is charged before any result. When it alone exceeds the budget, whole oldest
turns leave first, never the first user message nor the last turn (`docs/method.md`, Retained text).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.history.frozen import RestoredText, Substitute
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import TextOf
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter


@dataclass(slots=True, frozen=True)
class RetainedText:
    """What stays of the text: `tokens` inside the budget, what left, and what is cut short.

    `outside` are the positions never charged: the system prompt and the current user message.
    `dropped_turns` are the turns dropped as a whole; `left_messages` every message whose text was
    dropped, with its turn or alone; `excerpts` the texts cut short as a last resort.
    """

    tokens: int
    outside: frozenset[int]
    outside_tokens: int
    dropped_turns: tuple[int, ...] = ()
    left_messages: frozenset[int] = frozenset()
    excerpts: dict[int, str] = field(default_factory=dict)


def retain_text(
    history: History, budget: int, text_of: TextOf, counter: TokenCounter
) -> RetainedText:
    """The text kept under `budget` tokens. `text_of(message)` reads a message's text."""
    outside = frozenset([*range(history.leading_system), history.last_user]) - {-1}
    tokens = history.text_tokens
    outside_tokens = sum(tokens[position] for position in outside)
    total = sum(tokens) - outside_tokens
    if total <= budget:
        return RetainedText(total, outside, outside_tokens)
    last_turn = history.assistants
    by_turn: dict[int, int] = {}
    for position, turn in enumerate(history.turns):
        if turn < last_turn and position not in outside and position != history.first_user:
            by_turn[turn] = by_turn.get(turn, 0) + tokens[position]
    left: list[int] = []
    for turn in sorted(by_turn):
        if total <= budget:
            break
        total -= by_turn[turn]
        left.append(turn)
    leaving = set(left)
    gone = frozenset(
        position
        for position, turn in enumerate(history.turns)
        if turn in leaving and position not in outside and position != history.first_user
    )
    excerpts: dict[int, str] = {}
    if total > budget:
        total, excerpts = cut_short(history, budget, outside | gone, text_of, counter)
    return RetainedText(total, outside, outside_tokens, tuple(left), gone, excerpts)


def cut_short(
    history: History, budget: int, settled: frozenset[int], text_of: TextOf, counter: TokenCounter
) -> tuple[int, dict[int, str]]:
    """Excerpts of the texts that may not leave, so that together they fit; smallest keep whole."""
    sizes = history.text_tokens
    staying = {p: sizes[p] for p in range(len(history.roles)) if p not in settled and sizes[p]}
    return excerpts_of(staying, budget, text_of, counter)


def excerpts_of(
    sizes: Mapping[int, int], budget: int, text_of: TextOf, counter: TokenCounter
) -> tuple[int, dict[int, str]]:
    """What the texts of these sizes take together, and excerpts of those above their share."""
    excerpts: dict[int, str] = {}
    free = budget
    for rank, position in enumerate(sorted(sizes, key=lambda p: (sizes[p], -p))):
        share = free // (len(sizes) - rank)
        used = sizes[position]
        if used > share:
            excerpts[position] = excerpt(text_of(position), share - MESSAGE_OVERHEAD, counter)
            used = counter.text(excerpts[position]) + MESSAGE_OVERHEAD if excerpts[position] else 0
        free -= used
    return budget - free, excerpts


SMALLEST_REPLACEMENT = 100


@dataclass(slots=True, frozen=True)
class ScoreTable:
    """Why each result ranked as it did, one entry a result: relevance, U, and the last score.

    `relevance` is None where the policy does not embed.
    """

    relevance: Floats | None
    usefulness: Floats
    score: Floats


@dataclass(slots=True, frozen=True)
class Plan:
    """What a policy shows: complete results in the order taken, and replaced ones with a limit.

    `replaced` maps a result to the most tokens its replacement text may have. `order` is that of
    both kinds together, where it is not simply `taken` then `replaced`. `usage` are the tokens of
    model calls the policy itself made. `texts` are replacements it made itself, `reasons` its own
    words on why a result is shown or not. `calls` are the arguments in place of those too large to
    show, by result, with the call's tokens; `breakpoints` positions up to which the prompt stays as
    it is for some calls. `budget` is this call's own where the policy sizes itself, `faulted` that
    the turn before missed something; `added` is what came back, by the complete result behind whose
    text it stands. `since` is how many messages there were when something last had to leave, 0
    where the policy does not go on from what it showed before; where it does, `parts` are what of
    results it now shows otherwise (`Frozen.parts_since`).
    """

    retained: RetainedText
    taken: list[int]
    replaced: dict[int, int] = field(default_factory=dict)
    scores: ScoreTable | None = None
    order: list[int] = field(default_factory=list)
    usage: Usage = NOTHING_USED
    texts: dict[int, Substitute] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    calls: dict[int, Substitute] = field(default_factory=dict)
    breakpoints: tuple[int, ...] = ()
    budget: int = 0
    faulted: bool = False
    added: Mapping[int, RestoredText] = field(default_factory=dict)
    since: int = 0
    parts: Sequence[tuple[int, ...]] = ()

    @property
    def back(self) -> set[int]:
        """The results of which something came back behind another."""
        return {result for made in self.added.values() for result in made.results}

    @property
    def shown_order(self) -> list[int]:
        """The results shown, complete or replaced, in the order taken."""
        return self.order or [*self.taken, *self.replaced]


class RenderedMessage(NamedTuple):
    """One message of the rendering: which of its calls stay, and the text put in place of its own.

    `arguments` are put in place of those of the calls they are given for, in order.
    """

    message: int
    calls: tuple[int, ...] = ()
    text: str | None = None
    arguments: tuple[tuple[int, str], ...] = ()


def shown_items(history: History, plan: Plan, instead: Mapping[int, str]) -> list[RenderedMessage]:
    """The messages of a plan's rendering in transcript order.

    `instead` are the texts in place of results' own, by position.
    """
    positions = history.results.message
    left, texts = plan.retained.left_messages, plan.retained.excerpts
    visible = {*plan.taken, *plan.replaced}
    calls: dict[int, tuple[int, ...]] = {}
    arguments: dict[int, tuple[tuple[int, str], ...]] = {}
    for result, (message, call) in zip(visible, history.calls_of(visible), strict=True):
        calls[message] = tuple(sorted((*calls[message], call))) if message in calls else (call,)
        if result in plan.calls:
            cut = (call, plan.calls[result].text)
            arguments[message] = tuple(sorted((*arguments.get(message, ()), cut)))
    items = [
        RenderedMessage(at, (), instead.get(at)) for at in (positions[result] for result in visible)
    ]
    silent = {message for message, text in texts.items() if text == ""} | left
    own = texts | dict.fromkeys(left, "")
    items += [
        RenderedMessage(
            message, calls.get(message, ()), own.get(message), arguments.get(message, ())
        )
        for message in set(history.spoken) - silent | calls.keys()
    ]
    return sorted(items)
