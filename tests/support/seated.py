"""Seats of workers, without the workers."""

from collections.abc import Iterator
from contextlib import contextmanager

from contextrender_bridge.workers.seat import Seat, seats


@contextmanager
def seated(count: int, ready: int = 0, alive: int = 0) -> Iterator[list[Seat]]:
    """So many, closed at the end."""
    made = seats(count, ready, alive)
    try:
        yield made
    finally:
        for box in made[0].boxes:
            box.close()
        for seat in made:
            seat.letters.close()
