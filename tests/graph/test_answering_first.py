"""What a walker that answers early does before its answer, and what after it."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.runtime import Runtime

from engine.history.history import History
from graph.sessions.caches import WORKING_SET

SESSION = "s"
BUDGET = 600


@dataclass
class Agent:
    """One whose every turn brings a result of some fifty tokens."""

    runtime: Runtime
    root: str
    policy: str
    budget: int = BUDGET
    messages: list[Any] = field(default_factory=lambda: [{"role": "user", "content": "Go on."}])

    @property
    def place(self) -> tuple[str, str]:
        return str(UUID(self.root)), SESSION

    @property
    def history(self) -> History:
        """As the process keeps it."""
        state = WORKING_SET.get(self.place)
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
            if WORKING_SET.get(self.place) is None:  # it is kept from the first call on
                return
            history = self.history
            told["traced"] = len(history.reuse.scores())
            told["tracked"] = history.tracking.messages if history.tracking else 0

        fields = {"session": SESSION, "messages": self.messages, "budget": self.budget}
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


def test_what_a_selection_needs_is_read_before_it(runtime: Runtime, tmp_path: Path) -> None:
    """From half the budget on; below it there may never be one."""
    one = agent(runtime, tmp_path, "contextrender_frozen")
    one.render()
    one.turn()
    assert one.render() == {"traced": 0, "tracked": 0}
    assert one.history.tracking is None
    while one.history.total_tokens <= BUDGET / 2:
        one.turn()
        # Not before the answer: that would be waited for.
        assert one.render()["tracked"] == 0
    while not any(trail.latest.over for trail in one.history.frozen.values()):
        assert one.history.tracking is not None
        assert one.history.tracking.messages == len(one.messages)
        one.turn()
        one.render()


def test_of_a_long_history_a_part_is_read_at_a_time(runtime: Runtime, tmp_path: Path) -> None:
    one = agent(runtime, tmp_path, "contextrender_frozen")
    for _ in range(60):
        one.turn()
    one.budget = 50 * len(one.messages)
    read = []
    for _ in range(3):
        one.render()
        assert one.budget / 2 < one.history.total_tokens < one.budget
        assert one.history.tracking is not None
        read.append(one.history.tracking.messages)
    assert 0 < read[0] < read[1] <= read[2] == len(one.messages)
