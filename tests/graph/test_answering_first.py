"""What a walker that answers early does before its answer, and what after it."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.accounts import Accounts
from contextrender_bridge.server.runtime import Runtime

from engine.history.history import History
from graph.runtime.caches import WORKING_SET

SESSION = "s"
BUDGET = 600


@dataclass
class Agent:
    """One whose every turn brings a result of some fifty tokens."""

    runtime: Runtime
    root: str
    policy: str
    messages: list[Any] = field(default_factory=lambda: [{"role": "user", "content": "Go on."}])

    @property
    def history(self) -> History:
        """As the process keeps it."""
        state = WORKING_SET.get((str(UUID(self.root)), SESSION))
        assert state is not None
        return state.histories[0]

    def turn(self) -> None:
        """A call that uses what the last result had, and its result."""
        number = len(self.messages)
        made = {"name": "read", "arguments": json.dumps({"id": f"record-{998 + number}"})}
        call = {"id": f"c{number}", "type": "function", "function": made}
        text = f"record-{1000 + number} is the next one. " * 6
        self.messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text},
        ]

    def render(self) -> dict[str, int]:
        """The next call; what was traced and tracked when it was answered."""
        told: dict[str, int] = {}

        def tell(_: object) -> None:
            if len(self.messages) == 1:  # it is kept from the first call on
                return
            history = self.history
            told["traced"] = len(history.reuse.scores())
            told["tracked"] = history.tracking.messages if history.tracking else 0

        fields = {"session": SESSION, "messages": self.messages, "budget": BUDGET}
        asked = {**fields, "policy": self.policy, "live": True, "want": "plan", "early": True}
        self.runtime.call("render", lambda: asked, self.root, tell)
        return told


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with closing(Runtime(app_dir(), tmp_path)) as made:
        yield made


def agent(runtime: Runtime, data: Path, policy: str) -> Agent:
    caller = (accounts := Accounts(runtime, data)).caller(accounts.local_token())
    assert caller is not None
    return Agent(runtime, caller.root, policy)


@pytest.mark.parametrize(
    ("policy", "first"), [("contextrender_frozen", True), ("contextrender", False)]
)
def test_reuse_is_traced_first_only_for_who_ranks_by_it(
    runtime: Runtime, tmp_path: Path, policy: str, first: bool
) -> None:
    one = agent(runtime, tmp_path, policy)
    one.render()
    for turn in range(1, 4):
        one.turn()
        assert one.render()["traced"] == (turn - 1 if first else turn)
        assert len(one.history.reuse.scores()) == turn
    assert one.history.reuse.scores()[0] > 0


def test_what_a_selection_needs_is_read_before_it_once_something_has_left(
    runtime: Runtime, tmp_path: Path
) -> None:
    one = agent(runtime, tmp_path, "contextrender_frozen")
    one.render()
    while not any(trail.latest.over for trail in one.history.frozen.values()):
        one.turn()
        one.render()
    for _ in range(3):
        known = len(one.messages)
        one.turn()
        assert one.render()["tracked"] == known
        assert one.history.tracking is not None
        assert one.history.tracking.messages == len(one.messages)
