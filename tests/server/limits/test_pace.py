"""Views of past calls slow down while agents' calls run. The clock is a double."""

from dataclasses import dataclass, field

import pytest
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.server.process import threads
from contextrender_bridge.server.process.threads import REST_FACTOR, Pace


@dataclass
class Clock:
    """A clock on which work takes processor time and sleep does not."""

    now: float = 100.0
    worked: float = 0.0
    rests: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.worked

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.worked += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(threads, "time", clock)
    return clock


def work(clock: Clock, slices: int, seconds: float) -> None:
    for _ in range(slices):
        clock.work(seconds)
        let_requests_run()


def test_view_works_a_tenth_of_the_time_during_agent_calls(clock: Clock) -> None:
    shared = Pace()
    with shared.agent_call(), shared.low_priority():
        work(clock, 50, 0.003)
    assert sum(clock.rests) == pytest.approx(50 * 0.003 * REST_FACTOR)


def test_view_never_sleeps_without_agent_calls(clock: Clock) -> None:
    shared = Pace()
    with shared.low_priority():
        work(clock, 50, 0.003)
    assert clock.rests == []
