"""An agent's prompts do not change when its server is killed repeatedly."""

import json
import signal
from itertools import batched
from pathlib import Path

import pytest
from contextrender_bridge.base.wire import Json

from tests.server.conftest import NewStore
from tests.server.servers import another_server
from tests.support.transcripts import agent_run

pytestmark = pytest.mark.slow

CALLS = 300
CALLS_BETWEEN_KILLS = 10
SETTINGS: Json = {"policy": "contextrender_cache_aware", "budget": 3000}


def test_prompts_are_identical_when_server_is_killed_every_tenth_call(
    tmp_path: Path, new_store: NewStore
) -> None:
    steady = live_prompts(tmp_path / "steady" / "data", new_store(), CALLS)
    killed = live_prompts(tmp_path / "killed" / "data", new_store(), CALLS_BETWEEN_KILLS)
    assert len(steady) == CALLS
    for turn, (expected, prompt) in enumerate(zip(steady, killed, strict=True), 1):
        assert prompt == expected, f"call {turn}"


def live_prompts(data: Path, environment: Json, calls_between_kills: int) -> list[bytes]:
    """Return the prompt of each call of an agent whose server is killed after this many calls."""
    run = agent_run(CALLS, lines=5)
    answers = [index for index, message in enumerate(run) if message["role"] == "assistant"]
    prompts: list[bytes] = []
    omitted = 0
    new: Json = {"offset": 0, "prefix": ""}
    for positions in batched(answers, calls_between_kills):
        with another_server(data, environment) as server:
            with server.api() as api:
                for position in positions:
                    messages = run[new["offset"] : position]
                    reply = api("render", session="s", messages=messages, **new, **SETTINGS)
                    prompts.append(json.dumps(reply["messages"]).encode())
                    omitted += len(reply["omitted"]) + len(reply["substitutes"])
                    new = {"offset": reply["offset"], "prefix": reply["digest"]}
            server.stop(signal.SIGKILL)
    assert omitted > CALLS, "the budget has to leave results out"
    return prompts
