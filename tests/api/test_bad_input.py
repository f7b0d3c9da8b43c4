"""Invalid input is refused with a helpful message that never repeats contents."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import error_of
from tests.api.conftest import Service, User, endpoints, example
from tests.support.command import contextrender
from tests.support.transcripts import agent_run, assistant, call, result, user

RUN = agent_run(3)
CANARY = "CANARY_5512"


ROLES = "role must be one of system, developer, user"
BAD_MESSAGES = [
    ({"role": [CANARY]}, ROLES),
    ({"role": "user", "content": {"a": CANARY}}, "content must be text"),
    ({"role": "user", "content": [5]}, "content parts must be objects or texts"),
    (result(7, CANARY), "needs its tool_call_id"),  # type: ignore[arg-type]
    (assistant(None) | {"tool_calls": CANARY}, "tool_calls must be"),
    (assistant(None) | {"tool_calls": [CANARY]}, "must be an object"),
    (assistant(None) | {"tool_calls": [{"a": CANARY}]}, "needs an id"),
    (assistant(None, {"id": "a", "function": CANARY}), "needs function.name"),
    (assistant(None, {"id": "a", "type": "custom", "function": {}}), "needs custom.name"),
]


@pytest.mark.parametrize(("bad", "sentence"), BAD_MESSAGES)
def test_invalid_message_is_refused_with_its_position(
    alice: User, bad: Json, sentence: str
) -> None:
    digest = alice.api("sync", session="s", messages=RUN[:3])["digest"]
    before = alice.graph()
    for walker in ("sync", "render", "compact"):
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


NAMES = "1 to 200 printable characters"
BAD_CALLS: list[tuple[Json, str]] = [
    ({"messages": []}, "nothing to record"),
    ({"offset": -1, "prefix": "x"}, "offset must be 0 or more"),
    ({"offset": 2}, "an offset needs the prefix"),
    ({"prefix": "x"}, "a prefix needs its offset"),
    *(({"session": name}, NAMES) for name in ("", "x" * 201, "a\0", "\u202e")),
]


def test_invalid_fields_are_refused_with_explanation(alice: User) -> None:
    for change, sentence in BAD_CALLS:
        for walker in ("sync", "render", "compact"):
            fields = {"session": "new", "messages": RUN, **change}
            error = alice.api.refused(walker, 422, "invalid_request", **fields)
            assert sentence in error["message"]
    assert not alice.graph().nodes


BAD_PINS: list[Json] = [
    {"pinned_tools": ["a["]},
    {"pinned_tools": [""]},
    {"pinned_calls": ["x"] * 101},
]
REFUSED: dict[str, list[Json]] = {
    "compare_policies": [{"policies": ["contextrender", "nothing"]}, {"budgets": [3]}],
    "holdout_report": [{"limit": 0}, {"limit": 10_001}],
    "list_sessions": [
        *({"limit": limit} for limit in (0, 201, 10**40)),
        *({"cursor": "x"}, {"cursor": "1"}, {"sort": "size"}, {"sort": "cost", "cursor": "x/y"}),
    ],
    "misses": [{"start": 0}],
    "open_file": [{"name": "a", "content": "?"}, {"name": "a", "content": "eHg="}],
    "record_usage": [{"usage": {"messages": 1, "uncached": "many"}}],
    "read_message": [{"position": 1, "start": -1}, {"position": 1, "characters": 0}],
    "recall": [
        *({"query": "x", "limit": limit} for limit in (0, 51, 10**40)),
        *({"results": [3], "query": "x"}, {"results": [3] * 51}, {}),
    ],
    "render": [
        *(
            {"delivery": "by pigeon"},
            {"client": "c" * 81},
            {"usage": {"messages": 1, "tokens": [1]}},
        ),
        {"output": "all"},
        *BAD_PINS,
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
    "get_call": [
        *({"offset": -1}, {"rows": -1}, {"sort": "colour"}, {"window": -1}, {"end": -2}),
        {"parameters": {"weight_recency": -1}},
    ],
    "sync": [{"settings": pins} for pins in BAD_PINS],
    "newest_calls": [{"limit": 0}, {"limit": 201}],
    "timeline": [{"start": -1001}, {"limit": 1001}],
    "total_savings": [{"prices": ["cheap"]}],
}
UNKNOWN: dict[str, Json] = {
    "read_message": {"position": 99_999},
    "explain": {"turn": 0},
    "reuse_graph": {"turn": 0},
    "get_call": {"turn": 99_999},
    "timeline": {"branch": 9},
    "trace_value": {"value": "NOT_THERE_1"},
}
WITHOUT_SESSION = ("holdout_report", "list_sessions", "total_savings")


def test_endpoints_refuse_invalid_values(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    needed = {"render": {"messages": RUN}, "sync": {"messages": RUN}}
    for walker, cases in REFUSED.items():
        required_fields = (
            {} if walker in WITHOUT_SESSION else {"session": "s", **needed.get(walker, {})}
        )
        for case in cases:
            alice.api.refused(walker, 422, "invalid_request", **required_fields, **case)


def test_unknown_turn_position_or_branch_is_404(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    for walker, fields in UNKNOWN.items():
        alice.api.refused(walker, 404, "not_found", session="s", **fields)


def test_every_endpoint_refuses_invalid_session_name(service: Service, alice: User) -> None:
    for walker, fields in endpoints(service).items():
        if "session" in fields and walker != "import_session":
            right = example(walker, "a\tb")
            error = alice.api.refused(walker, 422, "invalid_request", **right)
            assert "printable" in error["message"]


def test_numbers_and_nesting_survive_unchanged(alice: User) -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = [deep]
    messages = [
        user("a") | {"x": [10**30, -(10**25), 1e300, -0.0, 0.1, 1.0, 1, True, None], "deep": deep},
        assistant(None, call("a", "f", {"n": [1.0, 10**30], "": {"": ""}})),
        result("a", "\u0000 \u2028 \ufffd \U0001f600"),
        user("x") | {"arguments": "y", "input": "z", "tool_calls": "not an assistant's"},
    ]
    api = alice.api
    for fields in ({"messages": messages}, {"messages": messages, "budget": 64}):
        api("render", session="s", **fields)
    prompt = api("render", session="s", messages=messages)["messages"]
    (branch,) = api("export_session", session="s")["branches"]
    assert json.dumps(prompt) == json.dumps(branch["messages"]) == json.dumps(messages)


def test_huge_numbers_get_a_regular_answer(alice: User) -> None:
    huge = 10**40
    api = alice.api
    api("sync", session="s", messages=RUN)
    assert api("render", session="s", messages=RUN, budget=huge)["messages"] == RUN
    assert api("explain", session="s", budget=huge)["budget"] == huge
    fields = {"session": "s", "messages": [], "offset": huge, "prefix": "x"}
    assert api.refused("sync", 409, "history_diverged", **fields)["recorded"] == len(RUN)
    last = "ffffffff-ffff-ffff-ffff-ffffffffffff"
    assert api("list_sessions", cursor=f"{huge}/{last}")["sessions"]


@pytest.mark.parametrize("depth", [300, 3_000, 100_000])
def test_import_of_deep_json_is_refused_with_one_sentence(
    service: Service, alice: User, tmp_path: Path, depth: int
) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"session": "s", "branches": ' + "[" * depth + "]" * depth + "}")
    address = {
        "CONTEXTRENDER_URL": str(service.http.base_url),
        "CONTEXTRENDER_TOKEN": alice.api.token,
    }
    result = contextrender("import", file, environment={**os.environ, **address})
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "nested too deeply" in result.stderr or "recursion limit" in result.stderr
    body = f'{{"data": {file.read_text()}}}'
    error_of(alice.api.post("import_session", body), 400, "invalid_json")
