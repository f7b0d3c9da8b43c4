"""What a model call lacked: what its answer then drew on, or asked for again, that was out of view.

A value is in view if it stands, whole, anywhere in what the model was sent: a complete result, an
excerpt, retained text or the arguments of a call that stayed (docs/method.md, Misses).
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from contextrender_bridge.engine.call.explain import Verdicts
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.text.values import extract_values

OTHERWISE_TODAY: Final = "so it was when the call was made; today it would be shown"
FIELD_NAME: Final = re.compile(r"""[A-Za-z0-9_.\-]+(?=\\?["']?\s*[:=](?![:=/]))""")
"""What stands before a colon or an equals sign: a key of JSON or YAML, a named argument."""


@dataclass(slots=True, frozen=True)
class MissingResult:
    """A result (by number) that a call did not show complete and its answer needed.

    `values` are those the answer used that stood nowhere in view, the rarest first; `again` tells
    that it issued the result's own call once more. `names_only`: all of the values are names of
    tools or fields, which an agent knows without the result.
    """

    result: int
    values: tuple[str, ...]
    again: bool
    names_only: bool = False


@dataclass(slots=True, frozen=True)
class Miss:
    """What a call lacked, and why: `cost` is what the result would have taken with its call.

    `shown`, `reason`, `left` and `after` are its verdict's.
    """

    lack: MissingResult
    shown: str
    cost: int
    reason: str
    left: int | None
    after: int | None


def lacks_at(
    past: BranchReplay, turn: int, complete: Collection[int], unseen: Callable[[set[str]], set[str]]
) -> tuple[MissingResult, ...]:
    """What the call before `turn` lacked, by result number, having shown `complete`.

    `unseen` gives those of some values that stood nowhere in what it showed.
    """
    wanted: dict[int, set[str]] = {}
    for use in past.uses_at(turn):
        if use.result not in complete:
            wanted.setdefault(use.result, set()).update(use.values)
    again = {result for result in past.asked_again_at(turn) if result not in complete}
    out = unseen(set().union(*wanted.values())) if wanted else set()
    holders = past.whole.reuse.holders(out)
    lacking = {
        result: tuple(sorted(values & out, key=lambda value: (holders.get(value, 0), value)))
        for result, values in wanted.items()
    }
    return tuple(
        MissingResult(
            result,
            values := lacking.get(result, ()),
            result in again,
            result not in again and _names_only(past, result, values),
        )
        for result in sorted(again.union(r for r, values in lacking.items() if values))
    )


def _names_only(past: BranchReplay, result: int, values: Collection[str]) -> bool:
    """Whether all values are names of tools, or stand in the result as names of fields alone."""
    tools = set(past.whole.names.values())
    others = {value for value in values if value not in tools}
    if not others:
        return True
    text = past.text_of(past.whole.results.message[result])
    return others.isdisjoint(extract_values(FIELD_NAME.sub(" ", text)))


def lacks_of(past: BranchReplay, rendered: RenderedCall, turn: int) -> tuple[MissingResult, ...]:
    """The same of a rendering at hand."""
    complete = frozenset(rendered.selection.complete)
    return lacks_at(past, turn, complete, lambda values: unseen_in(past, rendered, values))


def misses_of(rendered: RenderedCall, lacks: Sequence[MissingResult]) -> tuple[Miss, ...]:
    """Why a call lacked that, by its rendering.

    A result that today's rules would have shown complete was left out when the call was made.
    """
    verdicts = Verdicts(rendered)
    return tuple(
        Miss(
            lack,
            "omitted" if changed else verdict.shown,
            int(rendered.view.costs[lack.result]),
            OTHERWISE_TODAY if changed else verdict.reason,
            verdict.left,
            verdict.after,
        )
        for lack in lacks
        for verdict in [verdicts.of(lack.result)]
        for changed in [verdict.shown == "complete"]
    )


def unseen_in(past: BranchReplay, rendered: RenderedCall, values: set[str]) -> set[str]:
    """Those of the values that no text of the prompt holds."""
    unseen = set(values)
    if unseen:
        for text in _texts(past, rendered):
            candidates = {value for value in unseen if value in text}
            if candidates:
                unseen -= candidates & extract_values(text)
            if not unseen:
                break
    return unseen


def _texts(past: BranchReplay, rendered: RenderedCall) -> Iterator[str]:
    """The texts that the model was sent."""
    for item in rendered.items:
        yield past.text_of(item.message) if item.text is None else item.text
        _, *calls = past.fields_of(item.message)
        cut = dict(item.arguments)
        for call in item.calls:
            yield f"{calls[call]['name']}\n{cut.get(call, calls[call]['text'])}"
