"""How much of a prompt repeats the beginning of the one before it: what a cache can serve."""

from zlib import crc32

from engine.call.facts import CallFact
from engine.call.prompt import Prompt, place_of
from engine.call.render_call import Rendered
from engine.call.runs import numbers_in
from engine.history.history import History


def prompt_of(rendered: Rendered) -> Prompt:
    """The prompt of a rendering."""
    plan = rendered.plan
    return Prompt(
        len(rendered.view.history),
        frozenset(plan.taken),
        {result: _hash(text) for result, text in rendered.texts.items()},
        {result: _hash(made.text) for result, made in plan.calls.items()},
        plan.retained.left_messages,
        {message: _hash(text) for message, text in plan.retained.excerpts.items()},
    )


def prompt_of_fact(fact: CallFact, messages: int) -> Prompt:
    """The same as far as a fact tells it."""
    replaced: dict[int, int | None] = dict.fromkeys(numbers_in(fact.replaced))
    return Prompt(messages, frozenset(numbers_in(fact.shown)), replaced)


def prompt_sent_whole(messages: int, results: int) -> Prompt:
    """The prompt of so many messages, these results among them, with nothing left out."""
    return Prompt(messages, frozenset(range(results)), {})


def shared_whole(history: History, prompt: Prompt, before: Prompt | None) -> int:
    """Tokens of the messages with which a prompt sent whole begins as the one before it did.

    The history may have gone on since.
    """
    stop = before.parts_from(prompt, history.results) if before else 0
    return history.totals[stop - 1] if stop else 0


def shared_tokens(rendered: Rendered, prompt: Prompt, before: Prompt | None) -> int:
    """Tokens of the messages with which a rendering, whose `prompt` it is, begins as the prompt
    before it did.
    """
    if before is None:
        return 0
    history, plan, counter = rendered.view.history, rendered.plan, rendered.view.counter
    stop = before.parts_from(prompt, history.results)
    total = sum(history.text_tokens[:stop])
    for message in plan.retained.left_messages:
        total -= history.text_tokens[message] if message < stop else 0
    for message, text in plan.retained.excerpts.items():
        if message < stop and message not in plan.retained.left_messages:
            total += counter.message({"content": text}) if text else 0
            total -= history.text_tokens[message]
    results = history.results
    for result in (*plan.taken, *plan.replaced):
        if place_of(results, result) < stop:
            made = plan.calls.get(result)
            total += made.tokens if made else results.call_tokens[result]
        if results.message[result] < stop:
            total += _shown_tokens(rendered, result)
    return total


def _shown_tokens(rendered: Rendered, result: int) -> int:
    """Tokens of a result, or of what stands in for it."""
    if result in rendered.texts:
        return rendered.replaced_tokens(result)
    return rendered.view.history.results.tokens[result]


def _hash(text: str) -> int:
    """The same in every process."""
    return crc32(text.encode("utf-8", "surrogatepass"))
