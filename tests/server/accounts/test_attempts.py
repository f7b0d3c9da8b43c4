"""Failures are limited by name and by address."""

from pathlib import Path

from contextrender_bridge.server.accounts.counting import Counts
from contextrender_bridge.server.accounts.logins import REMEMBERED, Attempts, network_of


def test_after_so_many_failures_one_waits_until_the_oldest_is_forgotten(tmp_path: Path) -> None:
    now = 0.0
    attempts = Attempts(Counts(tmp_path), most=3, seconds=60, clock=lambda: now)
    for _ in range(3):
        assert attempts.begin("name a", "address 1") == 0
        now += 10
    now = 30.5
    assert attempts.begin("name a", "address 2") == 30
    assert attempts.begin("name b", "address 1") == 30
    assert attempts.begin("name b", "address 2") == 0
    now = 60.0
    assert attempts.begin("name a", "address 1") == 0
    assert attempts.begin("name a", "address 1") == 10


def test_success_is_no_failure(tmp_path: Path) -> None:
    attempts = Attempts(Counts(tmp_path), most=1)
    for _ in range(5):
        assert attempts.begin("name a") == 0
        attempts.forgive("name a")


def test_made_up_names_take_no_more_than_their_room(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    attempts = Attempts(counts)
    attempts.begin(*(f"name {number}" for number in range(REMEMBERED + 100)))
    attempts.begin("one more")
    with counts.changing() as file:
        assert file.execute("SELECT COUNT(*) FROM failures").fetchone() == (REMEMBERED,)


def test_an_ipv6_network_is_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db9::1")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1") != network_of("10.0.0.2")
    assert network_of("testclient") == "testclient"
