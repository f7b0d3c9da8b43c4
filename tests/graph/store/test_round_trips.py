"""How often a render waits for a database on a network: counted on the wire to PostgreSQL."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.runtime import Runtime

from tests.support.relay import Relay, relayed

Message = dict[str, Any]
pytestmark = pytest.mark.slow
POLICIES = pytest.mark.parametrize("policy", ["contextrender", "contextrender_frozen"])


class Session:
    """An agent's run, rendered in this process over a relay."""

    def __init__(self, runtime: Runtime, relay: Relay, policy: str) -> None:
        """A new user's."""
        self._runtime, self._relay, self._policy = runtime, relay, policy
        with tempfile.TemporaryDirectory() as folder:
            accounts = Accounts(runtime, Path(folder))
            accounts.add("local")
            self._root = accounts.named("local").root
            accounts.close()
        self._turns = 0
        self._known: Message = {}
        self.trips_of([{"role": "user", "content": "Find the build that broke."}])

    def turn(self) -> list[Message]:
        """A call and what it gave."""
        self._turns += 1
        id = f"call_{self._turns}"
        call = {"name": "look", "arguments": json.dumps({"build": f"Build_{self._turns}"})}
        return [
            {
                "role": "assistant",
                "content": f"Build_{self._turns - 1} is fine.",
                "tool_calls": [{"id": id, "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": id, "content": f"Build_{self._turns}: " + "ok " * 500},
        ]

    def trips_of(self, messages: list[Message]) -> int:
        """Round trips of a render that brings these."""
        before = self._relay.round_trips
        fields = {"session": "run", "messages": messages, "policy": self._policy, "budget": 3_000}
        body = self._runtime.call("render", lambda: fields | self._known, self._root)
        (report,) = json.loads(body)["reports"]
        self._known = {"offset": report["offset"], "prefix": report["digest"]}
        return self._relay.round_trips - before


@pytest.fixture
def over_relay(
    new_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[Runtime, Relay]]:
    # A socket's path may have 107 bytes, which pytest's own folders exceed.
    with tempfile.TemporaryDirectory() as folder, relayed(new_database, Path(folder)) as wired:
        relay, address = wired
        monkeypatch.setenv("CONTEXTRENDER_DATABASE", address)
        runtime = Runtime(app_dir(), tmp_path)
        yield runtime, relay
        runtime.close()


@POLICIES
def test_a_warm_render_reads_once_and_writes_once(
    over_relay: tuple[Runtime, Relay], policy: str
) -> None:
    session = Session(*over_relay, policy)
    for _ in range(10):
        session.trips_of(session.turn())
    assert [session.trips_of(session.turn()) for _ in range(3)] == [2, 2, 2]
