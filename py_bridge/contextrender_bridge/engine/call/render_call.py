"""The rendering of one model call: a policy's selection for a history, with substitutes.

Long because a rendering, its substitutes and its messages are made together.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.reuse import extract_values
from contextrender_bridge.engine.history.token_tracking import Originals, TextsOf
from contextrender_bridge.engine.models.embeddings import Embedder
from contextrender_bridge.engine.parameters import (
    AUTO,
    NO_PINS,
    START_BUDGET,
    Parameters,
    Pins,
    limits_of,
)
from contextrender_bridge.engine.plan.call_context import (
    CallContext,
    RelevanceOf,
)
from contextrender_bridge.engine.plan.ranking import Relevance
from contextrender_bridge.engine.plan.selection import (
    PlannedMessage,
    Selection,
    Substitute,
    rendered_messages,
    select_full_history,
    text_tokens,
)
from contextrender_bridge.engine.plan.truncated_calls import with_arguments
from contextrender_bridge.engine.policies import Policy, selection_for
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import Json

Compact = Callable[[int, int], str | None]
"""Returns a model's summary of a result, or None if there is no summary.

The arguments are the result's number, and the most tokens that the summary may have.
"""

MARK_TOKENS = 40
"""The tokens reserved for a substitute's first line, `excerpt_header`."""


@dataclass
class RenderedCall:
    """A call's selection, and the `context` from which the policy made it.

    `budget` is the budget of this call in tokens, also if it is automatic. `tokens_before` are the
    tokens of the full history, and `tokens_after` those of the prompt: at most the budget, except
    for the policy `full`. Both are without the system prompt and the current user message.
    `text_tokens` are the tokens of the prompt without results and their calls, counted like these.
    `summary_usage` has the usage of new summaries. If `sends_everything` is true, the prompt has
    every message with all of its calls, also calls without results.
    """

    context: CallContext
    selection: Selection
    warnings: list[str] = field(default_factory=list)
    embedded: bool = False
    embedded_tokens: int = 0
    summary_usage: list[Usage] = field(default_factory=list)
    sends_everything: bool = False
    budget: int = field(init=False)
    tokens_before: int = field(init=False)
    tokens_after: int = field(init=False)
    text_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        """Set the budget and the token counts."""
        history, unbudgeted_tokens = self.context.history, self.context.unbudgeted_tokens
        self.budget = int(self.selection.budget) or self.context.budget
        self.tokens_before = history.total_tokens - unbudgeted_tokens
        selection = self.selection
        all_text_tokens = text_tokens(history, selection.text, selection.messages)
        self.text_tokens = all_text_tokens - unbudgeted_tokens
        self.tokens_after = self.text_tokens + selection.result_tokens(history, selection.messages)

    @cached_property
    def items(self) -> list[PlannedMessage]:
        """The prompt's messages, in order."""
        history = self.context.history
        if not self.sends_everything:
            return rendered_messages(history, self.selection, self.context.texts_of)
        # The events of a message are its text or result, and its calls.
        event_ranges = pairwise([*history.first_events, history.events])
        call_counts = (stop - first - 1 for first, stop in event_ranges)
        return [
            PlannedMessage(message=message, calls=[*range(call_count)], text=None, arguments=None)
            for message, call_count in enumerate(call_counts)
        ]

    @property
    def complete(self) -> list[int]:
        """The positions of the results shown complete."""
        positions = self.context.history.results.message
        return sorted(positions[result] for result in self.selection.complete)

    @property
    def omitted(self) -> list[int]:
        """The positions of the results that are not shown at their own position."""
        positions, in_prompt = self.context.history.results.message, self.selection.shown_results
        return [position for r, position in enumerate(positions) if r not in in_prompt]

    @property
    def truncated(self) -> list[int]:
        """The positions of messages whose text or calls are cut, or whose text is dropped.

        If the policy drops whole turns, dropped texts are left out, because nothing of these
        messages is in the prompt.
        """
        text, results = self.selection.text, self.context.history.results
        dropped_texts = () if text.dropped_turns else text.dropped
        cut_calls = (results.call_message[result] for result in self.selection.arguments)
        return sorted({*text.cut, *dropped_texts, *cut_calls})

    @property
    def usage(self) -> Usage:
        """The tokens of the policy's own model calls and embeddings."""
        usage = NOTHING_USED
        for summary_usage in self.summary_usage:
            usage = usage.plus(summary_usage)
        return replace(usage, embedded=usage.embedded + self.embedded_tokens)

    @property
    def pinned(self) -> dict[int, str]:
        """The display of each pinned result, by the result's position.

        A display is "complete", the kind of a substitute, or "omitted".
        """
        positions, excerpts = self.context.history.results.message, self.selection.excerpts
        displays = dict.fromkeys(self.selection.complete, "complete")
        displays |= {result: substitute.kind for result, substitute in excerpts.items()}
        return {positions[r]: displays.get(r, "omitted") for r in self.context.pinned}


def render_call(
    history: History,
    *,
    budget: int,
    policy: Policy,
    parameters: Parameters,
    counter: TokenCounter,
    embedder: Callable[[], Embedder],
    texts_of: TextsOf,
    compact: Compact | None = None,
    originals: Originals | None = None,
    agent_defaults: bool = False,
    pins: Pins = NO_PINS,
    model_window: int | None = None,
    previous: Selection | None = None,
    select_answered: bool = False,
) -> RenderedCall:
    """Let the policy select the prompt of the next model call, and return the rendering.

    - `texts_of` reads the texts of messages, for texts that are embedded or replaced.
    - `originals(start, stop)` reads messages, for policies that track tokens. Without it, all
      messages must be in memory.
    - `embedder()` returns the embedder, for policies that rank by relevance.
    - `compact(result, limit)` may return a model's summary of an oversized result. If it returns
      None or a text above the limit, the substitute is an excerpt.
    - The results of `pins`, and with `agent_defaults` the newest results, are in every prompt.
    - An automatic budget stays within `model_window`, if that is known.
    - `previous` is the newest known selection of an answered call with this policy. A cache-aware
      policy continues its prompt.
    - With `select_answered`, a cache-aware policy first makes the selections of the calls that were
      answered after `previous`, and then continues the last of these prompts.
    """
    # `relevance` is a callable: it embeds texts only if the policy calls it.
    relevance = Relevance(history, embedder, texts_of, parameters.query_task_share)
    context = make_context(
        history,
        budget=budget,
        policy=policy,
        parameters=parameters,
        counter=counter,
        relevance_of=relevance,
        texts_of=texts_of,
        originals=originals,
        pins=pins,
        model_window=model_window,
        previous=previous,
        select_answered=select_answered,
    )
    # Select, and then write the texts of substitutes, for which the policy has only set limits.
    selection = selection_for(context, policy, agent_defaults)
    selection = _with_substitutes(context, selection, compact)
    return RenderedCall(
        context,
        selection,
        warnings=[relevance.warning] if relevance.warning else [],
        embedded=relevance.embedded,
        embedded_tokens=relevance.embedded_tokens,
    )


def make_context(
    history: History,
    *,
    budget: int,
    policy: Policy,
    parameters: Parameters,
    counter: TokenCounter,
    relevance_of: RelevanceOf,
    texts_of: TextsOf,
    originals: Originals | None = None,
    pins: Pins = NO_PINS,
    model_window: int | None = None,
    previous: Selection | None = None,
    select_answered: bool = False,
) -> CallContext:
    """Return the context of the next call, for a policy. `render_call` explains the parameters.

    Only a cache-aware policy changes an automatic budget from call to call. For any other policy,
    `AUTO` means the fixed budget `START_BUDGET`.
    """
    if policy.is_cache_aware:
        # The highest budget of any call, and the budget of the first call.
        limit, start_budget = limits_of(budget, model_window)
    else:
        limit = START_BUDGET if budget == AUTO else budget
        start_budget = 0  # the policy is not cache-aware
    return CallContext(
        history,
        len(history),
        budget=limit,
        parameters=parameters,
        counter=counter,
        texts_of=texts_of,
        relevance_of=relevance_of,
        originals_of=originals,
        pins=pins,
        start_budget=start_budget,
        previous=previous,
        select_answered=select_answered,
    )


def _with_substitutes(
    context: CallContext, selection: Selection, compact: Compact | None
) -> Selection:
    """Write the substitutes of oversized results, and return the selection with them.

    The policy has only set their limits in tokens. A substitute is the model's summary that
    `compact` returns. If there is none within the limit, it is an excerpt.
    """
    if not selection.limits:
        return selection
    substitutes = dict(selection.excerpts)
    for result, limit in selection.limits.items():
        summary = compact(result, limit - MARK_TOKENS) if compact else None
        text = _compaction(context, result, limit, summary) if summary else None
        kind = "compaction"
        if text is None:
            text, kind = _excerpt(context, result, limit), "excerpt"
        substitutes[result] = Substitute(text, context.counter.message({"content": text}), kind)
    return replace(selection, excerpts=substitutes)


def assemble_all(
    items: Sequence[PlannedMessage], messages_at: Callable[[list[int]], Iterable[Json]]
) -> list[Json]:
    """Return the messages of a prompt, given as its `items`, as the model receives them.

    `messages_at` returns the original messages at some positions.
    """
    messages = messages_at([item["message"] for item in items])
    return [assemble(message, item) for message, item in zip(messages, items, strict=True)]


def assemble(message: Json, item: PlannedMessage) -> Json:
    """Return `message` as the prompt shows it. `item` says what the prompt shows of it.

    Return the same object if the prompt shows it unchanged, and otherwise a copy. The copy has only
    the item's calls, with the item's cut arguments. If the item has a text, this text replaces the
    message's content.
    """
    # Replace the calls, unless all of them are shown with all arguments.
    calls = (message.get("tool_calls") or ()) if message.get("role") == "assistant" else ()
    has_other_calls = bool(calls) and (len(item["calls"]) < len(calls) or bool(item["arguments"]))
    if item["text"] is None and not has_other_calls:
        return message
    assembled = dict(message)
    if has_other_calls:
        cut_arguments = item["arguments"] or [None] * len(item["calls"])
        shown_calls = [
            calls[number] if arguments is None else with_arguments(calls[number], arguments)
            for number, arguments in zip(item["calls"], cut_arguments, strict=True)
        ]
        if shown_calls:
            assembled["tool_calls"] = shown_calls
        else:
            del assembled["tool_calls"]
    if item["text"] is not None:
        assembled["content"] = item["text"]
    return assembled


def excerpt_header(position: int, tokens: int, kind: str) -> str:
    """Return the first line of a substitute, with the number by which the result is recalled."""
    return f"[{kind} of a tool result of {tokens} tokens; recall result {position} for all of it]\n"


def _compaction(context: CallContext, result: int, limit: int, summary: str) -> str | None:
    """Return a model's summary after its header, or None if both exceed the limit."""
    results = context.history.results
    header = excerpt_header(results.message[result], results.tokens[result], "Compaction")
    text = header + summary
    return text if context.counter.message({"content": text}) <= limit else None


def _excerpt(context: CallContext, result: int, limit: int) -> str:
    """Return an excerpt of a result after its header, within the limit."""
    history, counter = context.history, context.counter
    position, tokens = history.results.message[result], history.results.tokens[result]
    header = excerpt_header(position, tokens, "Excerpt")
    # The excerpt should have the values that the agent used before, and those in the latest
    # messages, because they may be needed next (docs/method.md, Oversized results).
    needed_values = set(history.reuse.used_values(result))
    for message in {history.last_user, history.last_assistant} - {-1}:
        needed_values |= extract_values(context.text_of(message))
    text_limit = limit - counter.message({"content": ""})
    body_limit = text_limit - counter.text(header) - 1  # the joined text may have a token more
    body = excerpt(context.text_of(position), body_limit, counter, needed_values, tokens)
    return counter.cut(header + body, text_limit)


def sent_in_full(rendered: RenderedCall) -> RenderedCall:
    """Return the rendering of a call as if the full history was sent.

    It also has the calls without results.
    """
    history = rendered.context.history
    selection = select_full_history(history, len(history))
    return RenderedCall(rendered.context, selection, sends_everything=True)
