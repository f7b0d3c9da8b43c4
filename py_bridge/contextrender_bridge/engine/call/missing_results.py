"""The results that a call's answer used and that its prompt did not show.

A value is visible if it is anywhere in the prompt: in a complete result, an excerpt, retained text
or the arguments of a shown call (docs/method.md, Misses).
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.reuse import Use, extract_values
from contextrender_bridge.engine.history.token_tracking import TextsOf

FIELD_NAME: Final = re.compile(
    r"""(?<![A-Za-z0-9_.\-])[A-Za-z0-9_.\-]++(?=\\?["']?\s*[:=](?![:=/]))"""
)
"""Matches a name before a colon or an equals sign: a key of JSON or YAML, or a named argument.

It tries each run of letters and digits once, because it begins only at the run's beginning.
"""


@dataclass(slots=True, frozen=True)
class MissingResult:
    """A result that an answer used although the prompt did not show it complete.

    `result` is the result's number. `values` are the used values that were not visible, the rarest
    first. `repeated` is true if the answer repeats the result's tool call word for word.
    `names_only` is true if all values are names of tools or fields, because an agent knows these
    without the result.
    """

    result: int
    values: tuple[str, ...]
    repeated: bool
    names_only: bool = False

    @classmethod
    def of(cls, result: int, fields: Mapping[str, Any]) -> Self:
        """Return a missing result from its number and the fields of its stored edge."""
        values = tuple(map(str, fields.get("values", ())))
        return cls(result, values, bool(fields.get("repeated")), bool(fields.get("names_only")))

    def fields(self) -> dict[str, Any]:
        """Return the fields of the stored edge."""
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
    texts_of: TextsOf,
) -> tuple[MissingResult, ...]:
    """Return the results that an answer needed and that were missing in its call's prompt.

    `answer` is the position of the answer. A result is missing if it is not among the `complete`
    results of the prompt, and if the answer repeats the result's tool call, or uses a value of the
    result that is nowhere in the prompt. `prompt()` reads the prompt's texts, which takes long.
    `texts_of` reads the texts of results.
    """
    # The used values of results that were not complete.
    complete_results = set(complete)
    values_by_result = {
        result: values
        for result, values in values_used(history, answer).items()
        if result not in complete_results
    }
    # The used values that are nowhere in the prompt. Read the prompt only if there are used values.
    used_values: set[str] = set().union(*values_by_result.values())
    invisible_values = without_visible(used_values, prompt()) if used_values else set()
    result_counts = history.reuse.result_counts(invisible_values)
    repeated_results = set(history.results_called_again.get(answer, ())).difference(complete)

    # A result is missing because of its repeated call, or because of such a value.
    missing_list: list[MissingResult] = []
    for result in sorted(repeated_results | values_by_result.keys()):
        missing_values = values_by_result.get(result, set()) & invisible_values
        is_repeated = result in repeated_results
        if not (is_repeated or missing_values):
            continue
        rarest_first = sorted(
            missing_values, key=lambda value: (result_counts.get(value, 0), value)
        )
        # An agent knows the names of tools and fields without the result.
        names_only = not is_repeated and _are_known_names(history, result, missing_values, texts_of)
        missing_list.append(MissingResult(result, tuple(rarest_first), is_repeated, names_only))
    return tuple(missing_list)


def values_used(history: History, message: int) -> dict[int, set[str]]:
    """Map each result that a message or its calls used to the values of it that they used."""
    values_by_result: dict[int, set[str]] = {}
    for use in uses_of(history, message):
        values_by_result.setdefault(use.result, set()).update(use.values)
    return values_by_result


def uses_of(history: History, message: int) -> Sequence[Use]:
    """Return the uses of results by a message and its calls, in order."""
    first = history.first_events[message]
    return history.reuse.uses_in(first, history.events_before(message + 1))


def without_visible(values: set[str], texts: Iterable[str]) -> set[str]:
    """Return the values that none of the texts contains as a whole value."""
    invisible = set(values)
    for text in texts:
        if not invisible:
            break
        # This search is fast, and most texts contain none of the values.
        candidates = {value for value in invisible if value in text}
        if candidates:
            invisible -= candidates & extract_values(text)
    return invisible


def _are_known_names(
    history: History, result: int, values: Collection[str], texts_of: TextsOf
) -> bool:
    """Return whether each value is a tool's name, or is in the result only as a field's name."""
    other_values = set(values).difference(history.names.values())
    if not other_values:
        return True
    (text,) = texts_of([history.results.message[result]])
    return other_values.isdisjoint(extract_values(FIELD_NAME.sub(" ", text)))
