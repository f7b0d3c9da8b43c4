"""The replies of the service. Made by make_replies.py: change it there. Long because it has all."""

from __future__ import annotations

from typing import TypedDict

from contextrender_bridge.base.wire import Json


class DeleteView(TypedDict):
    """What was removed."""

    session: str
    nodes: int


class TokenView(TypedDict):
    """Tokens of a history within the budget's rule, before and after rendering, and those
    outside it.
    """

    before: int
    after: int
    outside: int


class ValueView(TypedDict):
    """A value, and how many results hold it."""

    value: str
    results: int


class UseView(TypedDict):
    """An operation that drew on a result: a message's text, or a call of the tool named."""

    turn: int
    position: int
    name: str
    values: list[ValueView]


class ResultView(TypedDict):
    """Why one result was shown or not: age, c (`reuse`), s (`relevance`), U (`usefulness`), the
    score it last had, what it costs with its call, when it was taken, or else the reason. Of one
    that found no room, the tokens `left` when it first no longer fitted, `after` so many had
    been taken. `pinned`: its caller asked to keep it.
    """

    position: int
    name: str
    turn: int
    age: int
    reuse: float
    relevance: float | None
    usefulness: float | None
    score: float | None
    tokens: int
    cost: int
    shown: str
    order: int | None
    reason: str
    left: int | None
    after: int | None
    pinned: bool
    uses: list[UseView]


class ExplainView(TypedDict):
    """One model call, explained. Where what it was shown was `noted` when it was made, that is
    told and only the reasons are recomputed; `sent` is what went to the model: "rendered", or
    "whole" or "held_out": then the whole history stood in view, and the reasons tell what its
    rendering would have left out. There were `count` results, of which `complete` and `replaced`
    are runs of numbers (first, length, ...), `whole_tokens` those of the complete ones, their
    calls apart (`call_tokens`); `results` are all of them or the page that was asked for.
    """

    session: str
    branch: int
    turn: int
    noted: bool
    sent: str
    budget: int
    policy: str
    tokens: TokenView
    retained: int
    dropped_turns: list[int]
    warnings: list[str]
    count: int
    complete: list[int]
    replaced: list[int]
    whole_tokens: int
    call_tokens: int
    results: list[ResultView]


class ExportedBranch(TypedDict):
    """A branch's own messages, and when each was recorded (seconds since 1970). `calls` tell by
    the `position` of its answer (which the last one may still wait for) what each model call was
    shown, with which settings, and what its provider said of it
    (`contextrender_bridge.engine.call.call_record`). `messages` end before the first one that
    cannot be read.
    """

    number: int
    parent: int
    fork: int
    messages: list[Json]
    timestamps: list[float]
    calls: list[Json]


class ExportView(TypedDict):
    """A whole session as plain values, to be kept or imported elsewhere. `damaged` says in a
    sentence what the store lost of it. Imported and exported again, it has the same bytes.
    """

    format: str
    session: str
    settings: Json
    head: int
    branches: list[ExportedBranch]
    damaged: str


class SyncView(TypedDict):
    """What is recorded now, and how many messages of it were new."""

    session: str
    branch: int
    turn: int
    offset: int
    digest: str
    recorded: int


class CountedView(TypedDict):
    """What a session's answered calls came to when they were made
    (`contextrender_bridge.engine.call.usage_totals`): prompt tokens with the whole history, at
    most the model's window (`full`), and of what was sent; results that answers drew on, and
    those of them that they had complete; the models that were called (or else the session's
    own), and dollars at their prices (None: no call has one). No calls: they were only recorded,
    or not answered yet.
    """

    calls: int
    full: int
    prompt: int
    drawn: int
    seen: int
    models: list[str]
    cost: float | None
    is_estimate: bool


class SessionView(TypedDict):
    """A session in a list. `about` is the agent's folder, where it tells it, and the user's
    first words; empty but in lists; `damaged` in a sentence what the store lost of it, as far as
    it is known; `client` the program that made the last calls that were counted; `tools` how
    often each was called.
    """

    session: str
    about: str
    damaged: str
    client: str
    tools: dict[str, int]
    created_at: float
    updated_at: float
    branches: int
    messages: int
    turns: int
    results: int
    tokens: int
    counted: CountedView


class BranchView(TypedDict):
    """One line of a session."""

    number: int
    parent: int
    fork: int
    messages: int
    turns: int
    results: int
    tokens: int


class ToolView(TypedDict):
    """One tool: its results and their tokens, how many results were used later, the tokens of
    its declaration. No later answer used `unused_tokens`. Dollars are of the results in the full
    history, and of the declaration, written to the provider's cache once and read at every later
    call; None without a price.
    """

    name: str
    results: int
    tokens: int
    reused: int
    declared: int
    unused_tokens: int
    largest: int
    largest_turn: int
    dollars: float | None
    declared_dollars: float | None


class InspectView(TypedDict):
    """A session's shape, without contents."""

    session: SessionView
    head: int
    settings: Json
    lines: list[BranchView]
    tools: list[ToolView]
    uses: int
    embedded: int


class SessionPage(TypedDict):
    """A page of sessions, newest first; `next` is the cursor of the following page, if any."""

    sessions: list[SessionView]
    next: str | None


class RecalledView(TypedDict):
    """A complete tool result with the call that asked for it. `position` counts on its `branch`."""

    branch: int
    position: int
    turn: int
    name: str
    arguments: str
    tokens: int
    score: float | None
    message: Json


class RecallView(TypedDict):
    """The results recalled, best first when there was a query."""

    session: str
    results: list[RecalledView]


class ReplacedView(TypedDict):
    """A text that stands in for a result: `kind` is "excerpt", "compaction" or "summary"."""

    position: int
    kind: str
    tokens: int
    text: str


class KeptView(TypedDict):
    """A result that the caller wants kept: `shown` is "complete", "excerpt" or another kind, or
    "omitted" where there was no room.
    """

    position: int
    shown: str


class UsageView(TypedDict):
    """Tokens of the service's own model calls and embeddings for one rendering."""

    model_tokens_in: int
    model_tokens_out: int
    embedding_tokens: int


class ShownView(TypedDict):
    """One message of a rendering: its position, which of its calls stay, and a text put in place
    of its own. With these an adapter renders from its own copy. Where a call is too large to
    show, `arguments` has for each call that stays what stands in place of its own, or none.
    """

    message: int
    calls: list[int]
    text: str | None
    arguments: list[str | None] | None


class RenderView(TypedDict):
    """One model call's history. `visible` and `omitted` are positions of tool results,
    `shortened` of messages whose text or calls are cut short or left out. `breakpoints` are
    those up to which the prompt will stay as it is: worth a cache breakpoint. `kept` are results
    that `pinned_tools` or `pinned_calls` asks for. `messages` or `plan` is there as asked for.
    """

    session: str
    branch: int
    turn: int
    offset: int
    digest: str
    budget: int
    policy: str
    tokens: TokenView
    visible: list[int]
    omitted: list[int]
    replaced: list[ReplacedView]
    dropped_turns: list[int]
    shortened: list[int]
    breakpoints: list[int]
    kept: list[KeptView]
    warnings: list[str]
    usage: UsageView
    messages: list[Json] | None
    plan: list[ShownView] | None
