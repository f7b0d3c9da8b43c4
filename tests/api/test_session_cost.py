"""The cost of a session is the provider's usage, or else an estimate that is marked as one."""

import pytest

from tests.api.conftest import User
from tests.support.transcripts import assistant, user

MESSAGES = [user("Go."), assistant("Done."), user("And now?"), assistant("That is all.")]


@pytest.mark.parametrize("billed", [False, True])
def test_cost_uses_provider_usage_before_estimate(alice: User, billed: bool) -> None:
    first = alice.api("render", session="s", messages=MESSAGES[:1], model="gpt-5.1", output="plan")
    usage = {"messages": 1, "uncached": 1_000_000, "model": "gpt-5.1"}
    fields = {"usage": usage} if billed else {}
    new = {"messages": MESSAGES[1:2], "offset": 1, "prefix": first["digest"]}
    alice.api("sync", session="s", **new, **fields)
    (view,) = alice.api("list_sessions")["sessions"]
    totals = view["totals"]
    assert totals["is_estimate"] is not billed
    if billed:
        assert totals["cost"] == pytest.approx(1.25)
    else:
        assert 0 < totals["cost"] < 0.01
