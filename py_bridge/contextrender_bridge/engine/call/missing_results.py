"""The results that a call's prompt lacked and its answer needed.

A value is visible if it is anywhere in the prompt: in a complete result, an excerpt, retained text
or the arguments of a shown call (docs/method.md, Misses).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.reuse import Use
from contextrender_bridge.engine.history.token_tracking import TextOf
from contextrender_bridge.engine.plan.selection import RenderedMessage
from contextrender_bridge.engine.text.tokens import call_parts, content_text
from contextrender_bridge.engine.text.transcript import Json, call_text
from contextrender_bridge.engine.text.values import extract_values

FIELD_NAME: Final = re.compile(r"""[A-Za-z0-9_.\-]+(?=\\?["']?\s*[:=](?![:=/]))""")
"""The text before a colon or an equals sign: a key of JSON or YAML, or a named argument."""


@dataclass(slots=True, frozen=True)
class MissingResult:
    """A result (by number) that a prompt did not show complete and its answer needed.

    `values` are those the answer used that were not visible, the rarest first. `repeated` says that
    the answer made the result's own call once more. `names_only` says that all of the values are
    names of tools or fields, which an agent knows without the result.
    """

    result: int
    values: tuple[str, ...]
    repeated: bool
    names_only: bool = False

    @classmethod
    def of(cls, result: int, fields: Mapping[str, Any]) -> Self:
        """Return one of the fields of its edge."""
        values = tuple(map(str, fields.get("values", ())))
        return cls(result, values, bool(fields.get("repeated")), bool(fields.get("names_only")))

    def fields(self) -> dict[str, Any]:
        """Return the fields of its edge."""
        return {
            "values": list(self.values),
            "repeated": self.repeated,
            "names_only": self.names_only,
        }


def missing_results(
    history: History,
    answer: int,
    complete: Collection[int],
    prompt: Callable[[], Iterable[str]],
    text_of: TextOf,
) -> tuple[MissingResult, ...]:
    """Return what the call that message `answer` answers lacked, having shown `complete` results.

    `prompt` reads the texts of what was sent; it is asked only if the answer used another result.
    """
    used: dict[int, set[str]] = {}
    for use in uses_of(history, answer):
        if use.result not in complete:
            used.setdefault(use.result, set()).update(use.values)
    repeated = {one for one in history.repeated.get(answer, ()) if one not in complete}
    invisible = without_visible(set().union(*used.values()), prompt()) if used else set()
    holders = history.reuse.holders(invisible)
    values = {
        result: tuple(sorted(those & invisible, key=lambda value: (holders.get(value, 0), value)))
        for result, those in used.items()
    }
    missing = repeated.union(result for result, lacking in values.items() if lacking)
    return tuple(
        MissingResult(
            result,
            lacking := values.get(result, ()),
            result in repeated,
            result not in repeated and _are_names(history, result, lacking, text_of),
        )
        for result in sorted(missing)
    )


def uses_of(history: History, message: int) -> Sequence[Use]:
    """Return what a message and its calls used, operation by operation."""
    first = history.first_events[message]
    return history.reuse.uses_in(first, history.events_before(message + 1))


def without_visible(values: set[str], texts: Iterable[str]) -> set[str]:
    """Return those of the values that none of the texts has."""
    invisible = set(values)
    for text in texts:
        if not invisible:
            break
        if candidates := {value for value in invisible if value in text}:
            invisible -= candidates & extract_values(text)
    return invisible


def prompt_texts(items: Iterable[RenderedMessage], originals: Iterable[Json]) -> Iterator[str]:
    """Return the texts of a prompt's messages and of their calls; `originals` are as recorded."""
    for item, original in zip(items, originals, strict=True):
        yield content_text(original.get("content")) if item.text is None else item.text
        cut, calls = dict(item.arguments), original.get("tool_calls") or ()
        for number in item.calls:
            name, arguments = call_parts(calls[number])
            yield call_text(name, cut.get(number, arguments))


def _are_names(history: History, result: int, values: Collection[str], text_of: TextOf) -> bool:
    """Return whether all values are names of tools, or only names of fields in the result."""
    tools = set(history.names.values())
    others = {value for value in values if value not in tools}
    if not others:
        return True
    text = text_of(history.results.message[result])
    return others.isdisjoint(extract_values(FIELD_NAME.sub(" ", text)))
