"""Tool-Flow Analysis: which earlier tool results later operations used.

The rules are those of `docs/method.md`, Tool-Flow Analysis. Results and operations are added to the
index in transcript order. The index does not keep their texts.
"""

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

_ESCAPE = re.compile(r"\\[ntr\\]")
_CANDIDATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{4,}[A-Za-z0-9]")


def unescape(text: str) -> str:
    r"""Replace the two-character escapes `\n` `\t` `\r` `\\` of a text by spaces.

    Results and call arguments are often JSON text, where `\nname` would hide `name`.
    """
    return _ESCAPE.sub(" ", text)


def extract_values(text: str) -> set[str]:
    """Return the distinct reusable values of a text (`docs/method.md`, Tool-Flow Analysis).

    A value has at least 6 characters, without `.` `-` `_` at its beginning and end. At least one
    character is an underscore, an uppercase letter, a digit, `-` or `.`. Titlecase words are no
    values.
    """
    candidates = set(_CANDIDATE.findall(unescape(text)))
    # A value of letters alone needs a capital after the first letter.
    return {value for value in candidates if not value.isalpha() or not value[1:].islower()}


@dataclass(slots=True, frozen=True)
class Use:
    """A use of a result: a later operation repeats `values` of the result.

    `result` is the result's number. `operation` is the event number of the text or call.
    """

    operation: int
    result: int
    values: tuple[str, ...]


class ReuseIndex:
    """An index of the values in results, and of the operations that repeat them.

    An operation is a text or a tool call of the agent. If it repeats a value, that is a match. The
    match is credited to the first result that contains the value. A use has all values of one
    operation that are credited to the same result.
    """

    def __init__(self) -> None:
        """Start without values and uses."""
        self.uses: list[Use] = []  # in transcript order
        # Each value:
        self._first_result: dict[str, int] = {}  # the first result with the value
        self._later_results = Counter[str]()  # the number of later results with it
        self._match_count = Counter[str]()  # the number of operations that repeat it
        # Each result, by its number:
        self._credited: dict[int, set[str]] = {}  # its values whose matches are credited to it
        self._scores = array("d")
        self._stale: set[int] = set()  # the results whose score is out of date

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self._scores)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return 200 * len(self._first_result) + 160 * len(self.uses) + 64 * len(self._scores)

    def results_used_in(self, first: int, stop: int) -> set[int]:
        """Return the results that the operations from event `first` up to `stop` used."""
        return {use.result for use in self.uses_in(first, stop)}

    def uses_in(self, first: int, stop: int) -> list[Use]:
        """Return the uses by the operations from event `first` up to `stop`."""
        start = bisect_left(self.uses, first, key=lambda use: use.operation)
        end = bisect_left(self.uses, stop, lo=start, key=lambda use: use.operation)
        return self.uses[start:end]

    def observe_result(self, text: str) -> set[str]:
        """Add the next tool result, and return its values."""
        result = len(self._scores)
        self._scores.append(0.0)
        values = extract_values(text)
        new_values = values.difference(self._first_result)
        self._first_result.update(dict.fromkeys(new_values, result))
        # Values that an earlier result has: count one more result.
        repeated_values = values - new_values
        self._later_results.update(repeated_values)
        for value in repeated_values & self._match_count.keys():
            # A match of a more frequent value counts less.
            self._stale.add(self._first_result[value])
        return values

    def observe_operation(self, operation: int, text: str) -> list[Use]:
        """Add the next operation, and return its uses of earlier results.

        Each value of the operation is credited to the first result that contains the value.
        """
        by_result: dict[int, list[str]] = {}
        for value in extract_values(text):
            result = self._first_result.get(value)
            if result is not None:
                by_result.setdefault(result, []).append(value)
                self._add_match(value, result)
        uses = [
            Use(operation, result, tuple(sorted(values)))
            for result, values in sorted(by_result.items())
        ]
        self.uses.extend(uses)
        return uses

    def _add_match(self, value: str, result: int) -> None:
        """Count a match of a value, and credit it to a result."""
        self._match_count[value] += 1
        self._credited.setdefault(result, set()).add(value)
        self._stale.add(result)

    def credit(self, use: Use) -> None:
        """Add a use that was read from the store.

        Ignore it if no result contains one of its values, because then it is corrupted.
        """
        if not all(isinstance(value, str) and value in self._first_result for value in use.values):
            return
        for value in use.values:
            self._add_match(value, use.result)
        self.uses.append(use)

    def scores(self) -> Sequence[float]:
        """Return the reuse score of every result, as of the next call.

        The score is the sum of 1/n over the matches that are credited to the result. n is the
        number of results that contain the value of the match. `fsum` rounds only once, so the score
        does not depend on the order of the matches. Only scores that have changed are computed.
        """
        for result in self._stale:
            self._scores[result] = fsum(
                self._match_count[value] / (1 + self._later_results[value])
                for value in self._credited[result]
            )
        self._stale.clear()
        return self._scores

    def result_counts(self, values: Iterable[str]) -> dict[str, int]:
        """Return the number of results that contain each value. Leave out values in no result."""
        return {
            value: 1 + self._later_results[value] for value in values if value in self._first_result
        }

    def used_values(self, result: int) -> list[str]:
        """Return the values of a result that operations repeated and that are credited to it."""
        if not self._credited.get(result):  # this test is fast, and most results have no uses
            return []
        return sorted({value for use in self.uses if use.result == result for value in use.values})
