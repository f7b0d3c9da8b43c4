"""Parameters of the policy made for prompt caches, over HTTP: its lifetime, and its thrift."""

import json
import time

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Api
from tests.api.transcripts import agent_run

POLICY = "contextrender_frozen"
HOUR = 3_600.0
LIFETIME = 300.0


def imported(api: Api, session: str, messages: list[Json], times: list[float]) -> None:
    """Records a session whose messages came at these times."""
    api("sync", session="empty", messages=messages[:1])
    data = api("export_session", session="empty")
    data["branches"][0] |= {"messages": messages, "timestamps": times}
    api("import_session", session=session, data=data)


@pytest.mark.parametrize("pause", [LIFETIME / 2, 2 * HOUR])
def test_after_a_caches_lifetime_everything_is_selected_anew(api: Api, pause: float) -> None:
    messages = agent_run(14, lines=5)
    past = len(messages) - 2
    before = time.time() - 10 * HOUR
    imported(api, "s", messages, [before + n for n in range(past)] + 2 * [before + past + pause])

    def goes_on(minutes: float | None) -> bool:
        parameters = {} if minutes is None else {"cache_minutes": minutes}
        settings: Json = {"budget": 1_800, "policy": POLICY, "parameters": parameters}
        last = api("render", session="s", messages=messages[:past], **settings)["messages"]
        now = api("render", session="s", messages=messages, **settings)["messages"]
        assert len(last) < past
        return json.dumps(now[: len(last)]) == json.dumps(last)

    assert goes_on(None) == (pause < LIFETIME)
    assert goes_on(0)
    assert goes_on(1) is False
    assert goes_on(180)
