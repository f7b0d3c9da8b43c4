"""Calls that are in a session and in its copies are added up once."""

from engine.call.copied import Spent, counted_once
from engine.call.ledger import Sums, added
from engine.lookback.saved import add_rows

KEY = ("2026-11-22", "", "m", "contextrender", "rendered")
OTHER = ("2026-11-23", "", "m", "contextrender", "rendered")


def rows(calls: int, *, later: int = 0) -> list[list[object]]:
    made = added([], KEY, Sums(calls=calls, prompt=10 * calls))
    return added(made, OTHER, Sums(calls=later)) if later else made


def calls(*sessions: Spent) -> int:
    return sum(sums.calls for sums in add_rows(counted_once(sessions)).values())


ORIGINAL = Spent(rows(3), created_at=1.0)


def test_a_copys_own_calls_count_beside_the_original() -> None:
    assert calls(ORIGINAL, Spent(rows(3), 2.0, 1.0, rows(3))) == 3
    assert calls(ORIGINAL, Spent(rows(5, later=2), 2.0, 1.0, rows(3))) == 3 + 2 + 2


def test_without_its_original_a_copy_counts_whole() -> None:
    assert calls(Spent(rows(5), 2.0, 1.0, rows(3))) == 5


def test_of_several_copies_the_oldest_has_what_was_copied() -> None:
    first, second = Spent(rows(4), 2.0, 1.0, rows(3)), Spent(rows(4, later=1), 3.0, 1.0, rows(4))
    assert calls(second, first) == 4 + 1
    assert calls(second, first, ORIGINAL) == 3 + 1 + 1


def test_a_session_of_before_there_were_copies_is_read() -> None:
    assert Spent.of({"spent": rows(2), "created_at": 1.0}) == Spent(rows(2), 1.0)
    assert list(counted_once([Spent.of({})])) == [()]
