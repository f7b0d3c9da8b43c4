"""What cannot be right is refused with a sentence that helps, and never repeats contents."""

import json
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import error_of
from tests.api.conftest import Service, User
from tests.api.endpoints import endpoints, example
from tests.support.transcripts import agent_run, assistant, call, result, user

RUN = agent_run(3)
CANARY = "CANARY_5512"


def refusals(service: Service, alice: User, broken: Any) -> None:
    """Every endpoint refuses each of the bodies made of a right one."""
    alice.api("sync", session="s", messages=RUN)
    before = alice.graph()
    for walker, fields in endpoints(service).items():
        for body, status, code, told in broken(walker, fields, example(walker, "s")):
            reply = alice.api.post(walker, body=body)
            error = error_of(reply, status, code)
            assert told in error["message"], (walker, error)
            assert CANARY not in reply.text
    assert alice.graph() == before


BAD_MESSAGES = {
    "no role": ({"content": CANARY}, "role must be one of system, developer, user"),
    "an unknown role": ({"role": CANARY}, "role must be one of"),
    "a role of another kind": ({"role": [CANARY]}, "role must be one of"),
    "a number as content": ({"role": "user", "content": 5}, "content must be text"),
    "an object as content": ({"role": "user", "content": {"a": CANARY}}, "content must be text"),
    "a number as part": ({"role": "user", "content": [5]}, "content parts must be objects"),
    "a result without id": ({"role": "tool", "content": CANARY}, "needs its tool_call_id"),
    "a result with an empty id": (result("", CANARY), "needs its tool_call_id"),
    "a result with a number as id": (result(7, CANARY), "needs its tool_call_id"),  # type: ignore[arg-type]
    "calls of another kind": (assistant(None) | {"tool_calls": CANARY}, "tool_calls must be"),
    "a call of another kind": (assistant(None) | {"tool_calls": [CANARY]}, "must be an object"),
    "a call without id": (assistant(None) | {"tool_calls": [{"a": CANARY}]}, "needs an id"),
    "a call without a function": (
        assistant(None, {"id": "a", "function": CANARY}),
        "needs function.name",
    ),
    "a call without a name": (
        assistant(None, {"id": "a", "function": {"arguments": CANARY}}),
        "needs function.name",
    ),
    "a custom call without a name": (
        assistant(None, {"id": "a", "type": "custom", "function": {"name": CANARY}}),
        "needs custom.name",
    ),
}


@pytest.mark.parametrize("case", BAD_MESSAGES)
def test_a_bad_message_is_named_by_its_position_and_nothing_is_recorded(
    alice: User, case: str
) -> None:
    bad, sentence = BAD_MESSAGES[case]
    digest = alice.api("sync", session="s", messages=RUN[:3])["digest"]
    before = alice.graph()
    for walker in ("sync", "render"):
        for fields in (
            {"session": "s", "messages": [*RUN, bad]},
            {"session": "new", "messages": [*RUN, bad]},
            {"session": "s", "messages": [*RUN[3:], bad], "offset": 3, "prefix": digest},
        ):
            reply = alice.api.post(walker, **fields)
            error = error_of(reply, 422, "invalid_request")
            assert error["message"].startswith(f"message {len(RUN)}: ")
            assert sentence in error["message"]
            assert error["position"] == len(RUN)
            assert CANARY not in reply.text
    assert alice.graph() == before


BAD_CALLS: dict[str, tuple[Json, str]] = {
    "nothing to record": ({"messages": []}, "nothing to record"),
    "a negative offset": ({"offset": -1, "prefix": "x"}, "offset must be 0 or more"),
    "an offset without prefix": ({"offset": 2}, "an offset needs the prefix"),
    "a prefix without offset": ({"prefix": "x"}, "a prefix needs its offset"),
    "no name": ({"session": ""}, "1 to 200 printable characters"),
    "a long name": ({"session": "x" * 201}, "1 to 200 printable characters"),
    "a name of two lines": ({"session": "a\nb"}, "1 to 200 printable characters"),
    "a name with a zero": ({"session": "a\0"}, "1 to 200 printable characters"),
    "a name that turns": ({"session": "\u202e"}, "1 to 200 printable characters"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
@pytest.mark.parametrize("walker", ["sync", "render"])
def test_a_call_that_makes_no_sense_is_explained(alice: User, walker: str, case: str) -> None:
    change, sentence = BAD_CALLS[case]
    fields = {"session": "new", "messages": RUN, **change}
    error = alice.api.refused(walker, 422, "invalid_request", **fields)
    assert sentence in error["message"]
    assert not alice.graph().nodes


WISHES: list[Json] = [{"policies": ["acon"]}, {"budgets": [3]}]
PINS: list[Json] = [{"keep_tools": ["a["]}, {"keep_tools": [""]}, {"keep": ["x"] * 101}]
REFUSED: dict[str, list[Json]] = {
    "advise": [*WISHES, {"policies": ["nothing"]}, {"budgets": [*range(1000, 1013)]}],
    "advise_all": [*WISHES, {"sessions": 0}, {"sessions": 101}, {"calls": 0}, {"calls": 401}],
    "compare_policies": [{"policies": ["contextrender", "nothing"]}],
    "glimpse": [{"limit": 0}, {"limit": 201}],
    "glimpse_call": [{"window": 0}, {"window": 401}],
    "list_sessions": [
        *({"limit": limit} for limit in (0, 201, 10**40)),
        *({"cursor": "x"}, {"cursor": "1"}, {"sort": "size"}, {"sort": "cost", "cursor": "x/y"}),
    ],
    "misses": [{"start": 0}],
    "note_usage": [{"used": {"messages": 1, "tokens": "many"}}],
    "read_message": [{"position": 1, "start": -1}, {"position": 1, "characters": 0}],
    "recall": [
        *({"query": "x", "limit": limit} for limit in (0, 51, 10**40)),
        *({"results": [3], "query": "x"}, {"results": [3] * 51}, {}),
    ],
    "render": [
        *({"sent": "by pigeon"}, {"client": "c" * 81}, {"used": {"messages": 1, "tokens": [1]}}),
        *PINS,
    ],
    "savings": [{"policy": "nothing"}, {"budget": 3}],
    "search": [
        *({}, {"query": ""}, {"query": "x" * 1001}),
        *({"query": "x", **page} for page in ({"limit": 0}, {"limit": 101}, {"cursor": "x"})),
        {"query": "x", "cursor": "1/2/3/4"},
    ],
    "share_session": [
        *({"days": days} for days in (0.0, -1.0, 366.0)),
        *({"label": label} for label in ("x" * 101, "a\nb")),
    ],
    "show_call": [
        *({"first": -1}, {"rows": -1}, {"sort": "colour"}, {"window": -1}, {"until": -2}),
        {"parameters": {"weight_recency": -1}},
    ],
    "sync": [{"settings": pins} for pins in PINS],
    "timeline": [{"start": -1001}, {"limit": 1001}],
    "total_savings": [{"prices": ["cheap"]}],
}
NOT_THERE: dict[str, Json] = {
    "read_message": {"position": 99_999},
    "remedies": {"turn": 4, "position": 0},
    "reuse_graph": {"turn": 0},
    "show_call": {"turn": 99_999},
    "timeline": {"branch": 9},
    "trace_value": {"value": "NOT_THERE_1"},
}
OF_ALL = ("advise_all", "list_sessions", "total_savings")


def test_what_no_endpoint_can_do_is_refused(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    needed = {"render": {"messages": RUN}, "sync": {"messages": RUN}}
    for walker, cases in REFUSED.items():
        own = {} if walker in OF_ALL else {"session": "s", **needed.get(walker, {})}
        for case in cases:
            alice.api.refused(walker, 422, "invalid_request", **own, **case)


def test_what_is_not_there_is_told(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    for walker, fields in NOT_THERE.items():
        alice.api.refused(walker, 404, "not_found", session="s", **fields)


def test_a_bad_name_is_refused_by_every_endpoint(service: Service, alice: User) -> None:
    for walker, fields in endpoints(service).items():
        if "session" in fields and walker != "import_session":
            right = example(walker, "a\tb")
            error = alice.api.refused(walker, 422, "invalid_request", **right)
            assert "printable" in error["message"]


def test_what_is_wanted_must_be_known(alice: User) -> None:
    error = alice.api.refused(
        "render", 422, "invalid_request", session="s", messages=RUN, want="all"
    )
    assert error["message"] == 'want must be "messages" or "plan"'
    assert not alice.graph().nodes


def test_numbers_and_nesting_within_json_are_kept_exactly(alice: User) -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = [deep]
    odd = [
        user("a") | {"x": [10**30, -(10**25), 1e300, -0.0, 0.1, 1.0, 1, True, None], "deep": deep},
        assistant(None, call("a", "f", {"n": [1.0, 10**30], "": {"": ""}})),
        result("a", "\u0000 \u2028 \ufffd \U0001f600"),
        user("x") | {"arguments": "y", "input": "z", "tool_calls": "not an assistant's"},
    ]
    api = alice.api
    for fields in ({"messages": odd}, {"messages": odd, "budget": 64}):
        api("render", session="s", **fields)
    shown = api("render", session="s", messages=odd)["messages"]
    (branch,) = api("export_session", session="s")["branches"]
    assert json.dumps(shown) == json.dumps(branch["messages"]) == json.dumps(odd)


def test_a_number_beyond_bounds_is_an_answer_not_a_failure(alice: User) -> None:
    huge = 10**40
    api = alice.api
    api("sync", session="s", messages=RUN)
    assert api("render", session="s", messages=RUN, budget=huge)["messages"] == RUN
    assert api("explain", session="s", budget=huge)["budget"] == huge
    fields = {"session": "s", "messages": [], "offset": huge, "prefix": "x"}
    assert api.refused("sync", 409, "history_diverged", **fields)["recorded"] == len(RUN)
    last = "ffffffff-ffff-ffff-ffff-ffffffffffff"
    assert api("list_sessions", cursor=f"{huge}/{last}")["sessions"]
