"""How a session records continuations, retries and rewritten histories."""

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.runtime.session_lease import WORKING_SET
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.client import Api, Conversation
from tests.api.conftest import Service, User
from tests.api.graph import count_rows
from tests.support.strategies import transcripts
from tests.support.transcripts import agent_run, assistant, user

RUN = agent_run(6)
SPLITS = [1, 2, 5, 6, 11, len(RUN)]


def test_reply_counts_new_messages(api: Api) -> None:
    talk = Conversation(api, "s")
    assert [talk.send("sync", RUN[:end])["recorded"] for end in SPLITS] == [1, 1, 3, 1, 5, 4]
    assert api("sync", session="s", messages=RUN)["recorded"] == 0


def test_repeated_call_returns_same_reply_and_writes_nothing(alice: User) -> None:
    first = alice.api("sync", session="s", messages=RUN[:5])
    piece = {"session": "s", "messages": RUN[5:], "offset": 5, "prefix": first["digest"]}
    reply = alice.api("render", **piece, budget=700)
    graph = alice.graph()
    for _ in range(3):
        assert alice.api("render", **piece, budget=700) == reply
        assert alice.api("render", session="s", messages=RUN, budget=700) == reply
        assert alice.api("sync", session="s", messages=RUN[:5]) == first | {"recorded": 0}
    assert alice.graph() == graph


@pytest.mark.parametrize(("offset", "prefix"), [(5, "f" * 32), (3, None), (900, None)])
def test_unknown_prefix_is_refused(api: Api, offset: int, prefix: str | None) -> None:
    digest = api("sync", session="s", messages=RUN[:5])["digest"]
    fields = {"session": "s", "messages": RUN[5:7], "offset": offset, "prefix": prefix or digest}
    for walker in ("sync", "render"):
        assert api.refused(walker, 409, "history_diverged", **fields)["recorded"] == 5
    assert api("sync", session="s", messages=RUN)["recorded"] == len(RUN) - 5


def test_rewritten_history_is_new_branch(api: Api) -> None:
    old = api("render", session="s", messages=RUN, budget=700)
    rewritten = [*RUN[:6], assistant("I try hub_3 instead."), user("Go on.")]
    new = api("render", session="s", messages=rewritten, budget=700)
    assert (old["branch"], new["branch"]) == (0, 1)
    assert new["offset"] == len(rewritten)
    alone = api("render", session="alone", messages=rewritten, budget=700)
    assert new | {"session": "", "branch": 0} == alone | {"session": ""}
    assert api("render", session="s", messages=RUN, budget=700) == old
    assert api("render", session="s", messages=rewritten, budget=700) == new


def test_both_branches_continue_from_their_prefix(api: Api) -> None:
    old, new = Conversation(api, "s"), Conversation(api, "s")
    rewritten = [*RUN[:6], user("Stop."), assistant("Stopped."), user("Go on.")]
    old.send("sync", RUN[:8])
    new.send("sync", RUN[:6])
    assert new.send("sync", rewritten[:8])["branch"] == 1
    assert [old.send("sync", RUN[:end])["branch"] for end in (9, 11)] == [0, 0]
    assert new.send("sync", rewritten)["branch"] == 1
    assert old.send("sync", RUN)["branch"] == 0
    lines = api("inspect_session", session="s")["branches"]
    assert [(line["parent"], line["fork_position"], line["messages"]) for line in lines] == [
        (-1, 0, len(RUN)),
        (0, 6, len(rewritten)),
    ]


def test_shorter_history_is_rendered_as_before(api: Api) -> None:
    talk = Conversation(api, "s")
    before = [talk.send("render", RUN[:end], budget=700) for end in SPLITS]
    for reply, end in zip(before, SPLITS, strict=True):
        assert api("render", session="s", messages=RUN[:end], budget=700) == reply
    assert api("inspect_session", session="s")["session"]["messages"] == len(RUN)


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    messages=transcripts(most_turns=4, longest=60), cuts=st.lists(st.integers(0, 30), max_size=3)
)
def test_history_renders_the_same_in_any_pieces(
    service: Service, messages: list[Json], cuts: list[int]
) -> None:
    api = service.new_user().api
    if not messages:
        api.refused("sync", 422, "invalid_request", session="pieces", messages=[])
        return
    talk = Conversation(api, "pieces")
    for end in sorted({cut for cut in cuts if 0 < cut < len(messages)}):
        talk.send("render", messages[:end], budget=150)
    pieces = talk.send("render", messages, budget=150)
    reply = api("render", session="whole", messages=messages, budget=150)
    assert pieces | {"session": ""} == reply | {"session": ""}
    WORKING_SET.clear()
    assert api("render", session="whole", messages=messages, budget=150) == reply
    (branch,) = api("export_session", session="pieces")["branches"]
    assert branch["messages"] == messages


def test_session_name_may_be_any_printable_text(alice: User) -> None:
    names = ["x" * 200, "team/42 é", "../..", "'; DROP TABLE anchors;--", "ａ"]
    before = count_rows(alice.data)["quarantine"]  # other users' of the same store
    for name in names:
        assert alice.api("sync", session=name, messages=RUN[:2])["session"] == name
    listed = alice.api("list_sessions")["sessions"]
    assert [session["session"] for session in listed] == names[::-1]
    assert count_rows(alice.data)["quarantine"] == before
