"""Looks back beside agents' calls. The clock is a double."""

from dataclasses import dataclass, field

import pytest
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.limits import pace
from contextrender_bridge.server.limits.pace import LONGEST_REST, LOOKS, RESTS, Pace
from contextrender_bridge.server.runtime import load_app

from engine.lookback.pausing import pause


@dataclass
class Clock:
    """Work takes processor time, rest does not; a second of either is one."""

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
    monkeypatch.setattr(pace, "time", clock)
    return clock


def work(clock: Clock, slices: int, seconds: float) -> None:
    for _ in range(slices):
        clock.work(seconds)
        pause()


def test_beside_agents_a_look_works_a_tenth_of_the_time(clock: Clock) -> None:
    shared = Pace()
    with shared.agent(), shared.look():
        work(clock, 50, 0.003)
    assert sum(clock.rests) == pytest.approx(50 * 0.003 * RESTS)


def test_looks_at_the_same_time_share_the_tenth(clock: Clock) -> None:
    shared = Pace()
    with shared.agent():
        with shared.look():
            clock.work(0.1)
        with shared.look():
            pass
    assert sum(clock.rests) == pytest.approx(0.1 * RESTS)


def test_with_no_agent_at_work_it_never_rests(clock: Clock) -> None:
    shared = Pace()
    with shared.look():
        work(clock, 50, 0.003)
    assert clock.rests == []


def test_it_goes_on_when_the_agents_are_done(clock: Clock) -> None:
    shared = Pace()
    with shared.agent():
        pass
    with shared.look():
        clock.work(0.01)
        work(clock, 50, 0.003)
    assert sum(clock.rests) <= pace.RECENT_SECONDS


def test_what_could_not_be_interrupted_is_not_rested_for_long(clock: Clock) -> None:
    shared = Pace()
    with shared.agent():
        with shared.look():
            clock.work(60.0)
        with shared.look():
            pass
    assert sum(clock.rests) == pytest.approx(LONGEST_REST)


def test_outside_a_look_nothing_pauses(clock: Clock) -> None:
    shared = Pace()
    with shared.agent():
        work(clock, 50, 0.003)
    assert clock.rests == []


def test_looks_are_walkers() -> None:
    assert load_app(app_dir()).keys() >= LOOKS
