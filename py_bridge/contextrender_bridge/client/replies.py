"""The replies of the service. Made by make_replies.py: change it there. Long because it has all."""

from __future__ import annotations

from typing import TypedDict

from contextrender_bridge.base.wire import Json


class DeleteView(TypedDict):
    """The reply to a deletion: the session, and the number of nodes that were removed."""

    session: str
    nodes: int


class ValueView(TypedDict):
    """A value, and the number of results that contain it."""

    value: str
    results: int


class UseView(TypedDict):
    """A later operation that used a result: a message's text, or a call of the tool `name`."""

    turn: int
    position: int
    name: str
    values: list[ValueView]


class ResultView(TypedDict):
    """The reason why a prompt shows or omits one result. `age`, `reuse` (c), `relevance` (s),
    `usefulness` (U) and `score` are the policy's figures (docs/method.md). `cost` is the tokens
    of the result with its call. `order` is the place of the result among the selected results.
    If it is None, `reason` says why the result was omitted. If the result did not fit,
    `remaining_tokens` tokens were left after `selected_count` results had been selected.
    `pinned` is true if the caller pinned the result. `edited_at` is the first turn that edited
    the result's file after the result, so that the result is an old version; None if there is no
    such turn.
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
    display: str
    order: int | None
    reason: str
    remaining_tokens: int | None
    selected_count: int | None
    pinned: bool
    edited_at: int | None
    uses: list[UseView]


class ExplainView(TypedDict):
    """One model call, explained. If the prompt was `recorded` with the call, the reply has the
    recorded prompt, and only the reasons are recomputed. `delivery` says what the model
    received: "rendered", "full" or "holdout". With "full" and "holdout", the model had the full
    history, and the reasons say what a rendering would have omitted. There were `count` results.
    `complete` and `substitutes` are runs of result numbers: [0, 3, 7, 1] stands for the results
    0, 1, 2 and 7, because it has the first number and the length of each run. `complete_tokens`
    are the tokens of the complete results, `call_tokens` the tokens of these results' calls, and
    `text_tokens` the tokens of texts. `results` has all results, or the page that the request
    asked for.
    """

    session: str
    branch: int
    turn: int
    recorded: bool
    delivery: str
    budget: int
    policy: str
    tokens_before: int
    tokens_after: int
    tokens_unbudgeted: int
    text_tokens: int
    dropped_turns: list[int]
    warnings: list[str]
    count: int
    complete: list[int]
    substitutes: list[int]
    complete_tokens: int
    call_tokens: int
    results: list[ResultView]


class ExportedBranch(TypedDict):
    """A branch's own messages, which follow the first `fork_position` messages of the branch
    `parent`. `messages` ends before the first message that cannot be read. `timestamps` are
    seconds since 1970. `calls` has the record of each model call
    (`contextrender_bridge.engine.call.call_record`). The `position` of a record is the position
    of the call's answer, or the position that the answer will have.
    """

    number: int
    parent: int
    fork_position: int
    messages: list[Json]
    timestamps: list[float]
    calls: list[Json]


class ExportView(TypedDict):
    """A whole session as plain values. `damage` says in a sentence which part the store has
    lost. An imported session is exported again with the same bytes.
    """

    format: str
    session: str
    settings: Json
    head: int
    branches: list[ExportedBranch]
    damage: str


class SyncView(TypedDict):
    """The recorded part of a session. `recorded` counts the messages that this request added."""

    session: str
    branch: int
    turn: int
    offset: int
    digest: str
    recorded: int


class SessionTotals(TypedDict):
    """The totals of a session's answered calls, as they were counted with each call. `calls` is
    0 if the session was only recorded, or if no call has an answer yet. `full` are the prompt
    tokens with the full history, which counts at most the model's window, and `prompt` are the
    tokens that were sent. `results_used` counts the uses, each a pair of an answer and a result,
    and `results_used_visible` counts the uses of complete results. `steps` are the calls whose
    answer used an earlier result, `steps_with_misses` are the steps that missed a value, and
    `misses` counts every miss. `models` are the models of the calls, or the session's own model
    if the calls name none. `cost` is what the provider bills, and `full_cost` an estimate of the
    bill with the full history, in dollars, None if no call's model has a price. If the provider
    did not report the usage of every call, `cost` is an estimate, too, and `is_estimate` is
    true.
    """

    calls: int
    full: int
    prompt: int
    results_used: int
    results_used_visible: int
    steps: int
    steps_with_misses: int
    misses: int
    models: list[str]
    cost: float | None
    full_cost: float | None
    is_estimate: bool


class SessionView(TypedDict):
    """A session. `about` is the user's first words and, if the history names it, the agent's
    folder; it is empty except in lists. `damage` says which part the store has lost, as far as
    that is known. `client` is the program that made the newest counted calls. `tools` maps each
    tool to its number of calls.
    """

    session: str
    about: str
    damage: str
    client: str
    tools: dict[str, int]
    created_at: float
    updated_at: float
    branches: int
    messages: int
    turns: int
    results: int
    tokens: int
    totals: SessionTotals


class BranchView(TypedDict):
    """One branch of a session, with the counts of its whole history."""

    number: int
    parent: int
    fork_position: int
    messages: int
    turns: int
    results: int
    tokens: int


class ToolCost(TypedDict):
    """The results and the declaration of one tool, with their tokens and costs. - `results`
    counts the results. `tokens` are the tokens of all results, and `dollars` is the cost of
    these tokens in the full history. - `reused` counts the results that a later answer used.
    `unused_tokens` are the tokens of the other results. `excess_tokens` are the part of
    `unused_tokens` beyond the first `FLOOD_TOKENS` tokens of each result, and `excess_dollars`
    is the cost of this part. - `declared` are the tokens of the declaration, and
    `declared_dollars` is its cost. - The largest result has `largest` tokens, and is of turn
    `largest_turn` of the session `largest_session`. Costs are None without a price.
    """

    name: str
    results: int
    tokens: int
    reused: int
    declared: int
    unused_tokens: int
    largest: int
    largest_turn: int
    largest_session: str
    dollars: float | None
    declared_dollars: float | None
    excess_tokens: int
    excess_dollars: float | None


class InspectView(TypedDict):
    """The shape of a session, without contents. `tools` are the tools of the branch that was
    asked for, and `uses` is the number of the branch's uses of results.
    """

    session: SessionView
    head: int
    settings: Json
    branches: list[BranchView]
    tools: list[ToolCost]
    uses: int


class SessionPage(TypedDict):
    """A page of sessions, the newest first. `next` is the cursor of the next page, None at the
    end.
    """

    sessions: list[SessionView]
    next: str | None


class RecalledView(TypedDict):
    """A complete tool result with its tool call. `position` is the number of its message on
    `branch`. `score` is None without a query. `superseded_by` is the position of the result of
    the next call that read, edited or wrote the same file, None if there is none.
    """

    branch: int
    position: int
    turn: int
    name: str
    arguments: str
    tokens: int
    score: float | None
    superseded_by: int | None
    message: Json


class RecallView(TypedDict):
    """The recalled results. With a query, the best result comes first."""

    session: str
    results: list[RecalledView]


class SubstituteView(TypedDict):
    """A text shown instead of a result's own text. `kind` is "excerpt" or "compaction"."""

    position: int
    kind: str
    tokens: int
    text: str


class PinnedView(TypedDict):
    """A pinned result. `display` is "complete", "excerpt" or another kind of substitute, or
    "omitted" if it did not fit.
    """

    position: int
    display: str


class UsageView(TypedDict):
    """The tokens that the service's own model calls and embeddings used for one rendering."""

    model_tokens_in: int
    model_tokens_out: int
    embedding_tokens: int


class PlannedMessage(TypedDict):
    """One message of a prompt. `message` is its position, and `calls` are the numbers of its
    tool calls that the prompt has. `text` replaces the message's own text, unless it is None. If
    the prompt cuts the arguments of a call, `arguments` has, for each of `calls`, the text that
    replaces its arguments, or None. A client makes the prompt from its own copy of the messages
    and this plan.
    """

    message: int
    calls: list[int]
    text: str | None
    arguments: list[str | None] | None


class RenderView(TypedDict):
    """The prompt of one model call. `complete` and `omitted` are the positions of tool results,
    and `truncated_messages` are the positions of messages whose text or calls are cut.
    `tokens_before` and `tokens_after` count the history before and after rendering.
    `tokens_unbudgeted` counts the system prompt and the current user message, which the budget
    does not include. The next prompt usually is the same up to the positions in `breakpoints`,
    so each is a good place for a cache breakpoint. `pinned` lists the results of `pinned_tools`
    and `pinned_calls`. The reply has either `messages` or `plan`, as the request's `output`
    says.
    """

    session: str
    branch: int
    turn: int
    offset: int
    digest: str
    budget: int
    policy: str
    tokens_before: int
    tokens_after: int
    tokens_unbudgeted: int
    complete: list[int]
    omitted: list[int]
    substitutes: list[SubstituteView]
    dropped_turns: list[int]
    truncated_messages: list[int]
    breakpoints: list[int]
    pinned: list[PinnedView]
    warnings: list[str]
    usage: UsageView
    messages: list[Json] | None
    plan: list[PlannedMessage] | None
