"""Times of calls, and goals, for benchmarks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Times:
    """The seconds that measured pieces of work took."""

    seconds: list[float] = field(default_factory=list)

    def measure[T](self, work: Callable[[], T]) -> T:
        """Do the work and record how long it took."""
        start = time.perf_counter()
        result = work()
        self.seconds.append(time.perf_counter() - start)
        return result

    def milliseconds(self, share: float = 0.5) -> float:
        """Return the quantile of the times at this share, in milliseconds."""
        sorted_seconds = sorted(self.seconds)
        return 1000 * sorted_seconds[min(int(share * len(sorted_seconds)), len(sorted_seconds) - 1)]


@dataclass(frozen=True)
class Goal:
    """A figure and its upper limit, or its lower limit if `is_minimum`."""

    name: str
    value: float
    limit: float
    is_minimum: bool = False

    @property
    def is_met(self) -> bool:
        """True if the value keeps to the limit."""
        return self.value >= self.limit if self.is_minimum else self.value <= self.limit

    def __str__(self) -> str:
        bound = "at least" if self.is_minimum else "at most"
        state = "met" if self.is_met else "MISSED"
        return f"{state:<7}{self.name}: {self.value:.2f}, goal {bound} {self.limit:g}"


def print_goals(goals: Sequence[Goal]) -> int:
    """Print the goals. Return the exit code: 1 if one is missed or there are none, otherwise 0."""
    print("\n".join(["", "Goals", *map(str, goals)]))
    return 0 if goals and all(goal.is_met for goal in goals) else 1
