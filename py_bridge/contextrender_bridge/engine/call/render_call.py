"""Renders one model call: a policy's selection for a history, with substitutes.

Long because a rendering, its substitutes and its messages are made together.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.history.growable_arrays import Vectors
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import Originals, TextOf
from contextrender_bridge.engine.models.embeddings import Embedder
from contextrender_bridge.engine.models.summaries import Summaries
from contextrender_bridge.engine.parameters import NO_PINS, START, Parameters, Pins, limits_of
from contextrender_bridge.engine.plan.call_context import next_call
from contextrender_bridge.engine.plan.policy_input import PolicyInput, RelevanceOf
from contextrender_bridge.engine.plan.ranking import Relevance
from contextrender_bridge.engine.plan.selection import (
    RenderedMessage,
    Selection,
    Substitute,
    everything_shown,
    rendered_messages,
)
from contextrender_bridge.engine.plan.truncated_calls import with_arguments
from contextrender_bridge.engine.policies import policy_named, selection_for
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import Json
from contextrender_bridge.engine.text.values import extract_values

Compact = Callable[[int, int], str | None]
MARK_TOKENS = 40


@dataclass
class RenderedCall:
    """A call's selection, with the view it was made of and what making it took.

    `fresh_vectors` were made on the way, `summary_usage` is what compactions took.
    `tokens_before` are the full history's without what the budget does not charge, `tokens_after`
    the same of what is shown: at most the budget, except for the policy `full`.
    """

    view: PolicyInput
    selection: Selection
    fresh_vectors: dict[int, Vectors] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    embedded: bool = False
    embedded_tokens: int = 0
    summary_usage: list[Usage] = field(default_factory=list)
    sends_everything: bool = False
    """Whether the prompt is every message with all of its calls, orphans too."""

    @cached_property
    def items(self) -> list[RenderedMessage]:
        """The prompt's messages, in order."""
        history = self.view.history
        if not self.sends_everything:
            return rendered_messages(history, self.selection, self.view.text_of)
        firsts = pairwise([*history.first_events, history.events])
        return [
            RenderedMessage(message, tuple(range(stop - first - 1)))
            for message, (first, stop) in enumerate(firsts)
        ]

    @property
    def budget(self) -> int:
        """The call's own budget in tokens."""
        return int(self.selection.budget) or self.view.budget

    @cached_property
    def tokens_before(self) -> int:
        """The full history's tokens that the budget would charge."""
        return self.view.history.total_tokens - self.view.unbudgeted_tokens

    @cached_property
    def tokens_after(self) -> int:
        """The prompt's tokens that the budget charges."""
        return self.selection.tokens_in(self.view.history) - self.view.unbudgeted_tokens

    @cached_property
    def text_tokens(self) -> int:
        """Those of them that are text, results and their calls apart."""
        return self.view.tokens_of(self.selection.text)

    @property
    def complete(self) -> list[int]:
        """The positions of the results shown complete."""
        positions = self.view.history.results.message
        return sorted(positions[result] for result in self.selection.complete)

    @property
    def omitted(self) -> list[int]:
        """The positions of the results that are not shown in their own place."""
        positions, shown = self.view.history.results.message, self.selection.shown
        return [place for result, place in enumerate(positions) if result not in shown]

    @property
    def truncated(self) -> list[int]:
        """The positions of messages whose text or calls are cut, or whose text alone is dropped."""
        text, results = self.selection.text, self.view.history.results
        alone = () if text.turns else text.dropped
        cut = (results.call_message[result] for result in self.selection.arguments)
        return sorted({*(p for p in text.cut if p not in self.view.unbudgeted), *alone, *cut})

    @property
    def usage(self) -> Usage:
        """Tokens the policy itself used on the way: of its model calls, and embedded."""
        used = self.view.summaries.usage if self.view.summaries else NOTHING_USED
        for more in self.summary_usage:
            used = used.plus(more)
        return replace(used, embedded=used.embedded + self.embedded_tokens)

    @property
    def pinned(self) -> dict[int, str]:
        """How each pinned result is shown, by position: `omitted` if not at all."""
        positions, excerpts = self.view.history.results.message, self.selection.excerpts
        shown = dict.fromkeys(self.selection.complete, "complete")
        shown |= {result: made.kind for result, made in excerpts.items()}
        return {positions[r]: shown.get(r, "omitted") for r in next_call(self.view).pinned}


def render_call(
    history: History,
    *,
    budget: int,
    policy: str,
    parameters: Parameters,
    counter: TokenCounter,
    embedder: Callable[[], Embedder],
    text_of: TextOf,
    compact: Compact | None = None,
    originals: Originals | None = None,
    summaries: Summaries | None = None,
    agent_defaults: bool = False,
    pins: Pins = NO_PINS,
    model_window: int | None = None,
    previous: Selection | None = None,
    follows: bool = False,
) -> RenderedCall:
    """Return the rendering before the next model call.

    `text_of(message)` reads a message's text; it is asked only for what is embedded or replaced.
    `originals(start, stop)` reads whole messages, for policies that track tokens; without it they
    must be in memory. `embedder` is asked by policies that rank by meaning; `summaries` are for
    those that need a model. `compact` may give a model-made text for an oversized result; where it
    gives none, or one over the limit, an excerpt stands in. with `agent_defaults` the newest
    results are in view under any policy, and for anyone those of `pins`. A budget that finds itself
    keeps to `model_window`, where that is known. `previous` is the selection of the last answered
    call, where this policy made that; with `follows`, calls answered since are selected on the way.
    Raises InvalidRequest for an unknown policy.
    """
    relevance = Relevance(history, embedder, text_of, parameters.query_task_share)
    view = policy_input(
        history,
        budget=budget,
        policy=policy,
        parameters=parameters,
        counter=counter,
        relevance_of=relevance,
        text_of=text_of,
        originals=originals,
        summaries=summaries,
        pins=pins,
        model_window=model_window,
        previous=previous,
        follows=follows,
    )
    selection = selection_for(view, policy_named(policy), agent_defaults)
    selection = _with_substitutes(view, selection, compact)
    warnings = [relevance.warning] if relevance.warning else []
    if summaries is not None:
        warnings += summaries.warnings
    return RenderedCall(
        view,
        selection,
        relevance.fresh,
        warnings,
        relevance.embedded,
        relevance.embedded_tokens,
    )


def policy_input(
    history: History,
    *,
    budget: int,
    policy: str,
    parameters: Parameters,
    counter: TokenCounter,
    relevance_of: RelevanceOf,
    text_of: TextOf,
    originals: Originals | None = None,
    summaries: Summaries | None = None,
    pins: Pins = NO_PINS,
    model_window: int | None = None,
    previous: Selection | None = None,
    follows: bool = False,
) -> PolicyInput:
    """Return what a policy selects from; the parameters are those of `render_call`."""
    sizes_itself = policy_named(policy).sizes_itself
    most, start = limits_of(budget, model_window) if sizes_itself else (budget or START, 0)
    return PolicyInput(
        history,
        most,
        parameters,
        counter,
        text_of,
        relevance_of,
        originals,
        summaries,
        pins,
        start,
        previous,
        follows,
    )


def _with_substitutes(
    view: PolicyInput, selection: Selection, compact: Compact | None
) -> Selection:
    """Return the selection with the substitutes for which its policy set limits alone."""
    if not selection.limits:
        return selection
    made = dict(selection.excerpts)
    for result, limit in selection.limits.items():
        text = compact(result, limit - MARK_TOKENS) if compact else None
        text = _compaction(view, result, limit, text) if text else None
        kind = "compaction" if text else "excerpt"
        shown = text or _excerpt(view, result, limit)
        made[result] = Substitute(shown, view.counter.message({"content": shown}), kind)
    return replace(selection, excerpts=made)


def assembled(messages: Iterable[Json], items: Iterable[RenderedMessage]) -> list[Json]:
    """Return messages of the history as the items of a prompt show them."""
    return [assemble(message, item) for message, item in zip(messages, items, strict=True)]


def assemble(message: Json, item: RenderedMessage) -> Json:
    """The message as the model gets it: only the calls that stay, and the text in its place."""
    shown = dict(message)
    calls = shown.get("tool_calls")
    if calls and shown.get("role") == "assistant" and len(item.calls) < len(calls):
        if item.calls:
            shown["tool_calls"] = [calls[index] for index in item.calls]
        else:
            del shown["tool_calls"]
    if calls and item.arguments:
        cut = dict(item.arguments)
        shown["tool_calls"] = [
            with_arguments(calls[index], cut[index]) if index in cut else calls[index]
            for index in item.calls
        ]
    if item.text is not None:
        shown["content"] = item.text
    return shown


def excerpt_header(position: int, tokens: int, kind: str) -> str:
    """The line that marks a text as standing in for a complete result, with the id to recall it."""
    return f"[{kind} of a tool result of {tokens} tokens; recall result {position} for all of it]\n"


def _compaction(view: PolicyInput, result: int, limit: int, made: str) -> str | None:
    history, counter = view.history, view.counter
    header = excerpt_header(
        history.results.message[result], history.results.tokens[result], "Compaction"
    )
    return header + made if counter.message({"content": header + made}) <= limit else None


def _excerpt(view: PolicyInput, result: int, limit: int) -> str:
    history, counter = view.history, view.counter
    position = history.results.message[result]
    room = limit - counter.message({"content": ""})
    header = excerpt_header(position, history.results.tokens[result], "Excerpt")
    latest = (history.last_user, history.last_assistant)
    wanted = set(history.reuse.used_values(result)).union(
        *(extract_values(view.text_of(message)) for message in latest if message >= 0)
    )
    size = history.results.tokens[result]
    body = excerpt(view.text_of(position), room - counter.text(header) - 1, counter, wanted, size)
    return counter.cut(header + body, room)


def sent_in_full(rendered: RenderedCall) -> RenderedCall:
    """Return every message as it is, with all of its calls: orphans, too."""
    history = rendered.view.history
    selection = everything_shown(history, len(history))
    return RenderedCall(rendered.view, selection, sends_everything=True)
