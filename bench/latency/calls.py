"""Calls at one number of results, in process or over HTTP alike."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from floors import Floors
from session import Post, Session
from times import Times


class Watch(Protocol):
    """Looks at every render from its begin to its end."""

    def begin(self) -> None:
        """One follows."""

    def end(self, seconds: float) -> None:
        """It took so long."""


@dataclass
class Calls:
    """Times by what was called: `render` has one new call and result, `repeat` nothing new.

    The last three are the floors, taken between the renders.
    """

    results: int
    render: Times = field(default_factory=Times)
    repeat: Times = field(default_factory=Times)
    record: Times = field(default_factory=Times)
    explain: Times = field(default_factory=Times)
    bulk: Times = field(default_factory=Times)
    arithmetic: Times = field(default_factory=Times)
    counting: Times = field(default_factory=Times)
    disk: Times = field(default_factory=Times)

    def to_json(self) -> dict[str, Any]:
        """Percentiles in milliseconds; `floor` is the median of what nothing can do without."""
        times = {name: value for name, value in vars(self).items() if isinstance(value, Times)}
        floor = self.arithmetic.ms() + self.counting.ms() + self.disk.ms()
        shown = {name: value.to_json() for name, value in times.items()}
        return {"results": self.results, "floor": round(floor, 4), **shown}


def steps_at(results: int, samples: int) -> int:
    """How many turns a session may grow by and still count as one of so many results."""
    return min(samples, max(20, 2 * results // 5))


def measure_calls(
    post: Post,
    results: int,
    samples: int,
    folder: Path,
    watch: Watch | None = None,
) -> Calls:
    """Renders at about so many results, floors in between; then the rest on the last session."""
    calls, floors = Calls(results), Floors(results, folder)
    calls.arithmetic, calls.counting, calls.disk = floors.arithmetic, floors.counting, floors.disk
    steps = steps_at(results, samples)
    for number in range(-(-samples // steps)):
        session = Session(post, f"s-{results}-{number}", seed=number)
        first = session.fill(max(results - steps // 2, 1))
        calls.bulk.seconds += first.over(max(results - steps // 2, 1)).seconds
        session.call("render", session.sample.turn(), Times())
        for _ in range(steps):
            fresh = session.sample.turn()
            if watch is not None:
                watch.begin()
            session.call("render", fresh, calls.render)
            if watch is not None:
                watch.end(calls.render.seconds[-1])
            session.call("render", [], calls.repeat)
            floors.measure(fresh)
    for _ in range(max(samples // 10, 5)):
        session.explain(calls.explain)
    for _ in range(max(samples // 4, 20)):
        session.call("sync", session.sample.turn(), calls.record)
    floors.close()
    return calls
