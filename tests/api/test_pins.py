"""Results that a caller wants kept, over HTTP: by call, by session, and what is refused."""

import pytest

from tests.api.client import Api
from tests.support.transcripts import agent_run, assistant, call, result

SKILL = "\n".join(f"rule {number}: say what you did" for number in range(40))
RUN = agent_run(40, lines=5)
RUN[2:2] = [assistant("I read up.", call("skill_1", "load_skill")), result("skill_1", SKILL)]


@pytest.mark.parametrize("policy", ["prune", "contextrender", "contextrender_frozen"])
@pytest.mark.parametrize("pins", [{"keep_tools": ["load_*"]}, {"keep": ["skill_1"]}])
def test_a_pinned_result_is_shown_and_said(
    api: Api, policy: str, pins: dict[str, list[str]]
) -> None:
    settings = {"budget": 1_800, "policy": policy}
    told = api("render", session="s", messages=RUN, **settings, **pins)
    assert told["kept"] == [{"position": 3, "shown": "complete"}]
    assert RUN[3] in told["messages"]
    assert told["tokens"]["after"] <= 1_800
    explained = api("explain", session="s", turn=told["turn"])
    (kept,) = [row for row in explained["results"] if row["position"] == 3]
    assert kept["shown"] == "complete"
    api("sync", session="own", messages=RUN, settings={**settings, **pins})
    own = api("render", session="own", messages=RUN)
    assert (own["kept"], own["messages"]) == (told["kept"], told["messages"])
    none = api("render", session="own", messages=RUN, keep_tools=[], keep=[])
    assert none["kept"] == []
