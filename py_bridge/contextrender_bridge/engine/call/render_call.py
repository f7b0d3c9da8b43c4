"""Renders one model call: a policy's plan for a history, with the texts that replace results."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from contextrender_bridge.base.usage import Usage
from contextrender_bridge.engine.history.growable_arrays import Vectors
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import Originals, TextOf
from contextrender_bridge.engine.models.embeddings import Embedder
from contextrender_bridge.engine.models.summaries import Summaries
from contextrender_bridge.engine.parameters import NO_PINS, START, Parameters, Pins, limits_of
from contextrender_bridge.engine.plan.call_context import present
from contextrender_bridge.engine.plan.plan import Plan, RenderedMessage, shown_items
from contextrender_bridge.engine.plan.policy_input import PolicyInput, everything
from contextrender_bridge.engine.plan.ranking import Relevance
from contextrender_bridge.engine.plan.truncated_calls import with_arguments
from contextrender_bridge.engine.policies import plan_for, policy_named
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import Json
from contextrender_bridge.engine.text.values import extract_values

Compact = Callable[[int, int], str | None]
MARK_TOKENS = 40


@dataclass
class Rendered:
    """What one call shows.

    `texts` are the replacements of oversized results by result number, `kinds` what each is:
    "compaction", "excerpt" or "summary"; `replaced_tokens` are their tokens. `fresh_vectors` were
    made on the way, `spent` is what compactions took. `budget` is the call's own; `tokens_before`
    are the whole history's without the system prompt and the current user message, `tokens_after`
    the same of what is shown: at most the budget, except for the policy `full`. `visible` are the
    positions of the results shown complete, `omitted` of those not shown at all, `shortened` of
    messages whose text or calls are cut short, or whose text alone left.
    """

    view: PolicyInput
    plan: Plan
    items: list[RenderedMessage]
    texts: dict[int, str] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    fresh_vectors: dict[int, Vectors] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    embedded: bool = False
    embedded_tokens: int = 0
    spent: list[Usage] = field(default_factory=list)
    budget: int = field(init=False)
    tokens_before: int = field(init=False)
    tokens_after: int = field(init=False)
    replaced_tokens: dict[int, int] = field(init=False)
    visible: list[int] = field(init=False)
    omitted: list[int] = field(init=False)
    shortened: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Reckons what follows from the plan and its texts."""
        plan, retained, history = self.plan, self.plan.retained, self.view.history
        results, positions = history.results, history.results.message
        self.budget = plan.budget or self.view.budget
        self.tokens_before = history.total_tokens - retained.outside_tokens
        count = self.view.counter.message
        self.replaced_tokens = {
            result: plan.texts[result].tokens if result in plan.texts else count({"content": text})
            for result, text in self.texts.items()
        }
        calls = results.call_tokens
        shown = sum(results.tokens[result] + calls[result] for result in plan.taken)
        shown += sum(made.tokens - calls[result] for result, made in plan.calls.items())
        shown += sum(made.tokens for made in plan.added.values())
        shown += sum(calls[result] + tokens for result, tokens in self.replaced_tokens.items())
        self.tokens_after = retained.tokens + shown
        self.visible = sorted(positions[result] for result in plan.taken)
        in_view = {*plan.taken, *plan.replaced}
        self.omitted = [place for result, place in enumerate(positions) if result not in in_view]
        alone = () if retained.dropped_turns else retained.left_messages
        cut = (results.call_message[result] for result in plan.calls)
        self.shortened = sorted({*retained.excerpts, *alone, *cut})

    @property
    def usage(self) -> Usage:
        """Tokens the policy itself used on the way: of its model calls, and embedded."""
        used = self.plan.usage
        for more in self.spent:
            used = used.plus(more)
        return replace(used, embedded=used.embedded + self.embedded_tokens)

    @property
    def kept(self) -> dict[int, str]:
        """Of each result that is pinned, by position, how it is shown: `omitted` if not at all."""
        plan, positions = self.plan, self.view.history.results.message
        shown = dict.fromkeys(plan.taken, "complete") | self.kinds
        return {positions[r]: shown.get(r, "omitted") for r in present(self.view).pinned}


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
    live: bool = False,
    pins: Pins = NO_PINS,
    model_window: int | None = None,
) -> Rendered:
    """The rendering before the next model invocation.

    `text_of(message)` reads a message's text; it is asked only for what is embedded or replaced.
    `originals(start, stop)` reads whole messages, for policies that track tokens; without it they
    must be in memory. `embedder` is asked by policies that rank by meaning; `summaries` are for
    those that need a model. `compact` may give a model-made text for an oversized result; where it
    gives none, or one over the limit, an excerpt stands in. For a `live` agent the newest results
    are in view under any policy, and for anyone those of `pins`. A budget that finds itself keeps
    to `model_window`, where that is known.
    Raises InvalidRequest for an unknown policy.
    """
    relevance = Relevance(history, embedder, text_of, parameters.query_task_share)
    chosen = policy_named(policy)
    most, start = limits_of(budget, model_window) if chosen.sizes_itself else (budget or START, 0)
    view = PolicyInput(
        history, most, parameters, counter, text_of, relevance, originals, summaries, pins, start
    )
    plan = plan_for(view, chosen, live)
    texts: dict[int, str] = {}
    kinds: dict[int, str] = {}
    for result, limit in plan.replaced.items():
        if result in plan.texts:
            kinds[result], texts[result] = plan.texts[result].kind, plan.texts[result].text
            continue
        made = compact(result, limit - MARK_TOKENS) if compact else None
        text = _compaction(view, result, limit, made) if made else None
        kinds[result] = "compaction" if text else "excerpt"
        texts[result] = text or _excerpt(view, result, limit)
    positions = history.results.message
    texts_at = {positions[result]: text for result, text in texts.items()}
    for result, made_behind in plan.added.items():
        texts_at[positions[result]] = text_of(positions[result]) + made_behind.text
    warnings = [relevance.warning] if relevance.warning else []
    if summaries is not None:
        warnings += summaries.warnings
    return Rendered(
        view,
        plan,
        shown_items(history, plan, texts_at),
        texts,
        kinds,
        relevance.fresh,
        warnings,
        relevance.embedded,
        relevance.embedded_tokens,
    )


def assembled(messages: Iterable[Json], items: Iterable[RenderedMessage]) -> list[Json]:
    """Messages of the history as items of a plan show them."""
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


def sent_whole(rendered: Rendered) -> Rendered:
    """Every message as it is, with all of its calls: orphans, too."""
    history = rendered.view.history
    plan = Plan(everything(rendered.view).retained, list(range(len(history.results.message))))
    firsts = [*history.first_events, history.events]
    items = [
        RenderedMessage(message, tuple(range(stop - first - 1)))
        for message, (first, stop) in enumerate(pairwise(firsts))
    ]
    return Rendered(rendered.view, plan, items)
