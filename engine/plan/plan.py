"""What a policy shows, and the messages to walk to for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from contextrender_bridge.base.usage import NOTHING_USED, Usage

from engine.history.frozen import Added, Replacement
from engine.history.history import History
from engine.plan.greedy import Floats
from engine.plan.retained import Retained

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

    retained: Retained
    taken: list[int]
    replaced: dict[int, int] = field(default_factory=dict)
    scores: ScoreTable | None = None
    order: list[int] = field(default_factory=list)
    usage: Usage = NOTHING_USED
    texts: dict[int, Replacement] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    calls: dict[int, Replacement] = field(default_factory=dict)
    breakpoints: tuple[int, ...] = ()
    budget: int = 0
    faulted: bool = False
    added: Mapping[int, Added] = field(default_factory=dict)
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


@dataclass(slots=True, frozen=True)
class Shown:
    """One message of the rendering: which of its calls stay, and the text put in place of its own.

    `result` is the result's number when it is a result whose text is replaced or added to, else -1.
    `arguments` are put in place of those of the calls they are given for, in order.
    """

    message: int
    calls: tuple[int, ...] = ()
    text: str | None = None
    result: int = -1
    arguments: tuple[tuple[int, str], ...] = ()


def shown_items(history: History, plan: Plan) -> list[Shown]:
    """The messages of a plan's rendering in transcript order; replacement texts not yet filled."""
    results = history.results
    visible = {*plan.taken, *plan.replaced}
    left, texts = plan.retained.left_messages, plan.retained.excerpts
    calls: dict[int, list[int]] = {}
    arguments: dict[int, list[tuple[int, str]]] = {}
    for result, (message, call) in zip(visible, history.calls_of(visible), strict=True):
        calls.setdefault(message, []).append(call)
        if result in plan.calls:
            arguments.setdefault(message, []).append((call, plan.calls[result].text))

    def spoken(message: int) -> Shown:
        text = "" if message in left else texts.get(message)
        shortened = tuple(sorted(arguments.get(message, ())))
        return Shown(message, tuple(sorted(calls.get(message, ()))), text, -1, shortened)

    texts_instead = {*plan.replaced, *plan.added}
    standing = {m for m in history.spoken if m not in left and texts.get(m) != ""}
    items = [spoken(message) for message in standing | calls.keys()]
    items += [
        Shown(results.message[result], result=result if result in texts_instead else -1)
        for result in visible
    ]
    return sorted(items, key=lambda item: item.message)
