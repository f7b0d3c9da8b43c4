"""Times of calls, goals, and how benchmarks tell them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Times:
    """Seconds taken; `ms` tells them in milliseconds."""

    seconds: list[float] = field(default_factory=list)

    def measure[T](self, work: Callable[[], T]) -> T:
        """Does the work and notes how long it took."""
        start = time.perf_counter()
        done = work()
        self.seconds.append(time.perf_counter() - start)
        return done

    def ms(self, share: float = 0.5) -> float:
        """The time within which this share of the samples was done."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True)
class Goal:
    """A figure, and what it may be at most, or must be at least."""

    what: str
    value: float
    limit: float
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value >= self.limit if self.least else self.value <= self.limit

    def __str__(self) -> str:
        way = "at least" if self.least else "at most"
        verdict = "met" if self.met else "MISSED"
        return f"{verdict:<7}{self.what}: {self.value:.2f}, goal {way} {self.limit:g}"


def told(goals: Sequence[Goal]) -> int:
    """Prints them; the exit code: 1 where one is missed or none was measured."""
    print("\n".join(["", "Goals", *map(str, goals)]))
    return 0 if goals and all(goal.met for goal in goals) else 1
