"""When results left the view of the calls that were made, told by what was noted of them."""

from bisect import bisect_right

from engine.call.record import Standing
from engine.lookback.past import Past


class Stays:
    """The calls at which each result left, the earliest first; it grows with its past."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._left: dict[int, list[int]] = {}
        self._standing: frozenset[int] = frozenset()
        self._turns = 0

    def left_at(self, result: int, turn: int) -> int | None:
        """The last call up to that of `turn` at which a result left the view."""
        for number in range(self._turns + 1, len(self._past.invocations) + 1):
            now = self._in_view(number)
            for gone in self._standing - now:
                self._left.setdefault(gone, []).append(number)
            self._standing = now
        self._turns = len(self._past.invocations)
        if turn > self._turns and result in self._standing - self._in_view(turn):
            return turn
        known = self._left.get(result, ())
        place = bisect_right(known, turn)
        return known[place - 1] if place else None

    def _in_view(self, turn: int) -> frozenset[int]:
        record = self._past.record_at(turn)
        if record is None:
            return self._standing
        noted = Standing.noted(record)
        return noted.complete | noted.replaced
