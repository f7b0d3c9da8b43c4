"""The replies as types: for editors and type checkers, over the plain values that the clients give.

A test holds them against the service's own.

Long because it lists every reply.
"""

from __future__ import annotations

from typing import TypedDict

from contextrender_bridge.base.wire import Json


class TokenView(TypedDict):
    """Tokens within the budget's rule, before and after rendering, and those outside it."""

    before: int
    after: int
    outside: int


class UsageView(TypedDict):
    """Tokens of the service's own model calls and embeddings for one rendering."""

    model_tokens_in: int
    model_tokens_out: int
    embedding_tokens: int


class ReplacedView(TypedDict):
    """A text that stands in for a result: an excerpt, a compaction or a summary."""

    position: int
    kind: str
    tokens: int
    text: str


class ShownView(TypedDict):
    """One message of a plan: which of its calls stay, and a text in place of its own.

    `arguments` has for each call that stays those in place of its own, where any are.
    """

    message: int
    calls: list[int]
    text: str | None
    arguments: list[str | None] | None


class KeptView(TypedDict):
    """A result that `keep_tools` or `keep` asks for, and how it is shown, or `omitted`."""

    position: int
    shown: str


class RenderView(TypedDict):
    """The reply of `render`: `messages` or `plan`, as wanted; the other is None."""

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
    left_turns: list[int]
    shortened: list[int]
    breakpoints: list[int]
    kept: list[KeptView]
    warnings: list[str]
    usage: UsageView
    messages: list[Json] | None
    plan: list[ShownView] | None


class SyncView(TypedDict):
    """The reply of `sync` and `import_session`: what is recorded now."""

    session: str
    branch: int
    turn: int
    offset: int
    digest: str
    recorded: int


class ValueView(TypedDict):
    """A value, and how many results hold it."""

    value: str
    results: int


class UseView(TypedDict):
    """An operation that drew on a result."""

    turn: int
    position: int
    name: str
    values: list[ValueView]


class ResultView(TypedDict):
    """Why one result was shown or not."""

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
    uses: list[UseView]


class ExplainView(TypedDict):
    """The reply of `explain`: one model call, as it was `noted` when it was made, if it was."""

    session: str
    branch: int
    turn: int
    noted: bool
    sent: str
    budget: int
    policy: str
    tokens: TokenView
    retained: int
    left_turns: list[int]
    warnings: list[str]
    count: int
    complete: list[int]
    replaced: list[int]
    whole_tokens: int | None
    call_tokens: int | None
    results: list[ResultView]


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
    """The reply of `recall`: best first when there was a query."""

    session: str
    results: list[RecalledView]


class CountedView(TypedDict):
    """What a session's answered calls came to, in prompt tokens and in results drawn on."""

    calls: int
    full: int
    prompt: int
    drawn: int
    seen: int


class SessionView(TypedDict):
    """A session in a list.

    `about` is the agent's folder, where it tells it, and the user's first words; `client` the
    program that made the last calls that were counted.
    """

    session: str
    about: str
    client: str
    created_at: float
    updated_at: float
    branches: int
    messages: int
    turns: int
    results: int
    tokens: int
    counted: CountedView


class SessionPage(TypedDict):
    """The reply of `list_sessions`: newest first; `next` is the following page's cursor."""

    sessions: list[SessionView]
    next: str | None


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
    """How much one tool was used and how much its results were drawn on."""

    name: str
    results: int
    tokens: int
    reused: int


class InspectView(TypedDict):
    """The reply of `inspect_session`."""

    session: SessionView
    head: int
    settings: Json
    lines: list[BranchView]
    tools: list[ToolView]
    uses: int
    embedded: int
    damaged: str


class BeyondHole(TypedDict):
    """A message that is whole, behind one that the store lost."""

    position: int
    timestamp: float
    message: Json


class ExportedBranch(TypedDict):
    """A branch's own messages, when each was recorded, and what its calls were shown."""

    number: int
    parent: int
    fork: int
    messages: list[Json]
    timestamps: list[float]
    calls: list[Json]
    beyond: list[BeyondHole]


class ExportView(TypedDict):
    """The reply of `export_session`."""

    format: str
    session: str
    created_at: float
    origin: float
    settings: Json
    head: int
    branches: list[ExportedBranch]
    damaged: str


class DeleteView(TypedDict):
    """The reply of `delete_session`."""

    session: str
    nodes: int
