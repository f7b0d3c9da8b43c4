"""Each conversation has its own session, which has no messages of another conversation."""

import asyncio
import uuid
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from contextrender_bridge import ContextRender, Credentials
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender

from tests.proxy.conftest import Setup, Start
from tests.support.transcripts import assistant, step, user
from tests.support.waiting import wait_until

SECRET = "owner A, account DEMO-1111"


def tool_step(name: str, text: str) -> list[Json]:
    return step(name, "look", "{}", text)


def send(setup: Setup, messages: list[Json], **fields: Any) -> str:
    """Send a request and return the name of its session."""
    response = setup.post(
        "/v1/chat/completions", {"model": "gpt-x", "messages": messages, **fields}
    )
    assert response.status_code == 200
    assert "x-contextrender-fail-open" not in response.headers
    return str(response.headers["x-contextrender-session"])


def surfaces(session: str) -> dict[str, Callable[[ContextRender], Any]]:
    """Return the functions that read all branches of a session, by name."""
    return {
        "recall": lambda client: client.recall(session, query="account"),
        "search": lambda client: client.call("search", {"session": session, "query": "DEMO-1111"}),
        "explain": lambda client: client.explain(session),
        "export": lambda client: client.export_session(session),
        "timeline": lambda client: client.call("timeline", {"session": session}),
    }


def check_apart(setup: Setup, session: str, other: str) -> None:
    """Assert that no function which reads the session returns text of the other session."""
    assert session != other
    client = setup.service
    for name, look in surfaces(session).items():
        assert "DEMO-1111" not in str(look(client)), name
    assert client.inspect_session(session)["session"]["branches"] == 1
    assert "DEMO-1111" in str(client.recall(other, query="account"))


@pytest.fixture(scope="module")
def names(shared_setup: Setup) -> tuple[str, str]:
    """Return the sessions of users B and A, whose histories begin with the same messages."""
    shared_setup.http.cookies.clear()
    hello = [user(f"hello {uuid.uuid4().hex}"), assistant("Hello.")]
    history_a = [*hello, user("I am A."), *tool_step("a1", SECRET)]
    history_b = [*hello, user("I am B."), *tool_step("b1", "owner B")]
    first = send(shared_setup, history_a)
    return send(shared_setup, history_b), first


@pytest.mark.parametrize("surface", ["recall", "search", "explain", "timeline"])
def test_share_link_opens_one_conversation(
    credentials: Credentials, names: tuple[str, str], surface: str
) -> None:
    session, other = names
    with ContextRender(credentials.url, credentials.token) as client:
        link = client.call("share_session", {"session": session})
    secret = str(link["path"]).partition("&to=")[0].removeprefix("/console/#view=")
    with ContextRender(credentials.url, secret) as visitor:
        assert "DEMO-1111" not in str(surfaces(session)[surface](visitor))
        with pytest.raises(ContextRenderError):
            surfaces(other)[surface](visitor)


@pytest.mark.parametrize(
    ("tool", "arguments"), [("recall", {"query": "account"}), ("explain", {"budget": 400})]
)
def test_mcp_server_reads_one_conversation(
    credentials: Credentials, names: tuple[str, str], tool: str, arguments: Json
) -> None:
    session, other = names
    mcp = pytest.importorskip("mcp")
    mcp_server = import_module("contextrender_bridge.mcp_server")

    async def ask(session: str) -> str:
        async with (
            AsyncContextRender(credentials.url, credentials.token) as client,
            mcp.Client(mcp_server.build_mcp(client)) as agent,
        ):
            reply = await agent.call_tool(tool, {"session": session, **arguments})
        assert not reply.is_error
        return str(reply.structured_content)

    assert "DEMO-1111" not in asyncio.run(ask(session))
    assert "results" in asyncio.run(ask(other))


@pytest.mark.parametrize("key", [{}, {"prompt_cache_key": "demo-app"}])
def test_histories_with_equal_prefix_have_two_sessions(setup: Setup, key: Json) -> None:
    hello = [user(f"hello {uuid.uuid4().hex}"), assistant("Hello.")]
    history_a = [*hello, user("I am A."), *tool_step("a1", SECRET)]
    history_b = [*hello, user("I am B.")]
    first, second = send(setup, history_a, **key), send(setup, history_b, **key)
    check_apart(setup, second, first)
    # Both histories continue their sessions in any order.
    assert send(setup, [*history_b, *tool_step("b1", "nothing"), user("on")], **key) == second
    assert send(setup, [*history_a, user("on")], **key) == first
    check_apart(setup, second, first)


def test_new_proxy_uses_the_same_names(start: Start) -> None:
    hello = [user(f"hello {uuid.uuid4().hex}"), assistant("Hello.")]
    history_a = [*hello, user("I am A."), *tool_step("call_1", SECRET)]
    history_b = [*hello, user("I am B."), *tool_step("call_1", "of B")]
    names = [send(start(), messages) for messages in (history_a, history_b, history_b, history_a)]
    assert names[0] == names[3] != names[1] == names[2]


def test_equal_cache_key_gives_two_sessions(setup: Setup) -> None:
    key = f"demo-{uuid.uuid4().hex}"
    first = send(setup, [user("I am A."), *tool_step("a1", SECRET)], prompt_cache_key=key)
    second = send(setup, [user("I am B.")], prompt_cache_key=key)
    # The proxy sends a call that is certain to fit before the service has recorded it.
    wait_until(lambda: setup.service.list_sessions(query=second)["sessions"])
    check_apart(setup, second, first)


def test_histories_that_diverge_have_separate_sessions(setup: Setup) -> None:
    hello = user(f"hello {uuid.uuid4().hex}")
    first = tool_step("call_0", "the same")
    ways = [
        [hello, assistant("Hello."), user("on"), *tool_step("a1", SECRET)],
        [hello, assistant("Hi."), user("on")],
        [hello, *first, *tool_step("call_1", "of a third")],
        [hello, *first[:1], {**first[1], "content": "of a fourth"}],
    ]
    names = [send(setup, way) for way in ways]
    assert len(set(names)) == 4
    for name in names[1:]:
        check_apart(setup, name, names[0])


ASK = user("My account?")
HELLO = assistant("Hello.")
EXAMPLE = [*tool_step("call_aB3xK9mQ2pL7vR4tY8wZ1cD5", "an example"), HELLO]
BEGUN_ALIKE: dict[str, tuple[list[Json], list[Json]]] = {
    "first request": ([HELLO, *tool_step("a1", SECRET)], []),
    "beginning": ([HELLO, ASK, *tool_step("a1", SECRET), ASK], [HELLO, ASK]),
    "ids from names": (tool_step("functions.look:0", SECRET), tool_step("functions.look:0", "B")),
    "long counters": (tool_step(f"call_{1:016}", SECRET), tool_step(f"call_{1:016}", "of B")),
    "examples": ([*EXAMPLE, ASK, *tool_step("a1", SECRET)], [*EXAMPLE, user("B")]),
}


@pytest.mark.parametrize("case", BEGUN_ALIKE)
def test_histories_that_only_begin_alike_have_two_sessions(setup: Setup, case: str) -> None:
    hello, key = user(f"hello {uuid.uuid4().hex}"), {"prompt_cache_key": "demo-app"}
    history_a, history_b = ([hello, *steps] for steps in BEGUN_ALIKE[case])
    first, second = send(setup, history_a, **key), send(setup, history_b, **key)
    check_apart(setup, second, first)
    on = [assistant("of B"), user("on")]
    check_apart(setup, send(setup, [*history_b, *on], **key), first)
    assert send(setup, [*history_a, *on], **key) == first


@pytest.mark.parametrize("size", [0, 9_000])
def test_proxies_that_know_one_beginning_keep_histories_apart(start: Start, size: int) -> None:
    """The first proxy has not received the answer that the second proxy has recorded."""
    hello = user(f"hello {uuid.uuid4().hex}" + size * " word")
    (proxy, other_proxy), history_b = (start(), start()), [hello, HELLO, user("I am B.")]
    first = send(proxy, [hello])
    assert send(other_proxy, [hello, *tool_step("a1", SECRET)]) == first
    proxy.post("/v1/chat/completions", {"model": "gpt-x", "messages": history_b})
    proxy.http.get("/healthz")
    assert proxy.service.inspect_session(first)["session"]["branches"] == 1
    check_apart(proxy, send(proxy, history_b), first)


def random_step(text: str) -> list[Json]:
    return tool_step(f"call_{uuid.uuid4().hex}", text)


STEP, OLD = random_step("of step 1"), random_step(SECRET)
CONTINUED: dict[str, tuple[list[Json], list[Json]]] = {
    "cleared result": ([*STEP, *OLD], [STEP[0], {**STEP[1], "content": "[cleared]"}, ASK]),
    "own question": ([*STEP, *OLD, user("Title?")], [*STEP, *OLD, HELLO]),
    "dropped step": ([*STEP, *OLD], [*STEP, *random_step("another")]),
    "compaction": ([*OLD, *STEP, ASK], [user("A summary"), *STEP, ASK]),
}


@pytest.mark.parametrize("case", CONTINUED)
def test_rewritten_history_keeps_its_session(setup: Setup, case: str) -> None:
    """The first request of a history may be an example, so the calls come later."""
    ask = user(f"Find the fault. {uuid.uuid4().hex}")
    recorded_messages, sent_messages = CONTINUED[case]
    before = [send(setup, [ask]), send(setup, [ask, *recorded_messages])]
    after = send(setup, [ask, *sent_messages])
    assert [after, after] == before
    assert "DEMO-1111" in str(setup.service.recall(after, query="account"))


def test_history_stored_by_provider_is_not_recorded(setup: Setup) -> None:
    name = f"thread-{uuid.uuid4().hex}"
    use = {"type": "tool_use", "id": "u0", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "u0", "content": "word " * 900}
    first_messages = [user("Find the fault."), assistant([use]), user([result])]
    next_messages = [user([{**result, "tool_use_id": "u2"}])]
    output = {"type": "function_call_output", "call_id": "c0", "output": "word " * 900}
    bodies: list[tuple[str, Json]] = [
        ("messages", {"messages": first_messages, "thread": {"type": "create"}}),
        ("messages", {"messages": next_messages, "thread": {"type": "continue", "id": "1"}}),
        ("responses", {"input": [output], "previous_response_id": "r1"}),
        ("responses", {"input": [output], "conversation": {"id": "conv_1"}}),
        ("chat/completions", {"messages": [user("x")], "cached_content": "c/1"}),
        ("chat/completions", {"messages": [user("x")], "cachedContent": "c/1"}),
        ("responses", {"input": [output], "previous_interaction_id": "i1"}),
        ("responses", {"input": [output], "context_id": "ctx-1"}),
        *(
            ("chat/completions", {"messages": [user("x")], **fields})
            for fields in (
                {"extra_body": {"google": {"cached_content": "cachedContents/1"}}},
                {"google": {"cached_content": "cachedContents/1"}},
            )
        ),
    ]
    for path, body in bodies:
        body = {"model": "m", "max_tokens": 9, **body}
        response = setup.post(f"/s/{name}/v1/{path}", body, x_contextrender_budget="300")
        assert setup.model.requests[-1].json == body
        assert "x-contextrender-tokens-after" not in response.headers
        assert "x-contextrender-fail-open" not in response.headers
        fit = setup.service.fit(name, body, dialect=path.partition("/")[0], budget=300)
        assert (fit.body, fit.changed, fit.failure) == (body, False, "")
    assert setup.service.list_sessions(query=name)["sessions"] == []


@pytest.mark.parametrize(
    "reference",
    [{"type": "item_reference", "id": "fc_0"}, {"id": "fc_0"}, {"type": None, "id": "fc_0"}],
)
def test_history_with_references_is_sent_in_full(setup: Setup, reference: Json) -> None:
    output = {"type": "function_call_output", "call_id": "c0", "output": "word " * 900}
    items = [user("Go."), reference, output]
    session = uuid.uuid4().hex
    body = {"model": "m", "input": items}
    response = setup.post(f"/s/{session}/v1/responses", body, x_contextrender_budget="300")
    assert setup.model.requests[-1].json == body
    tokens = [
        int(response.headers[f"x-contextrender-tokens-{name}"]) for name in ("before", "after")
    ]
    assert tokens[0] == tokens[1] > 300
    assert response.headers["x-contextrender-full-history"] == "references"
    assert response.headers["x-contextrender-omitted"] == "0"


def test_fit_changes_no_request_with_references(setup: Setup) -> None:
    """The reference may be to the reasoning that led to the call."""
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "word " * 900}
    reference = {"type": "item_reference", "id": "rs_1"}
    asks = [user("Go."), assistant("Done."), user("on")]
    for place in range(4):
        body = {"input": [asks[0], call, output, *asks[1:]]}
        body["input"].insert(place, reference)
        fit = setup.service.fit(uuid.uuid4().hex, body, dialect="responses", budget=300)
        assert (fit.body, fit.changed, fit.failure) == (body, False, "references")


STRAY = {"role": "tool", "tool_call_id": "gone", "content": "word " * 900}
NAMELESS = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"arguments": "x" * 9000}}]}


@pytest.mark.parametrize(
    ("odd", "reason"), [(STRAY, "unpaired_results"), (NAMELESS, "unreadable_messages")]
)
def test_unrenderable_history_is_reported_once(setup: Setup, odd: Json, reason: str) -> None:
    session = uuid.uuid4().hex
    messages: list[Json] = [user("Go."), odd, user("on")]
    body = {"model": "m", "messages": messages}
    before = setup.proxy.histories.failures.counts().get(reason, 0)
    for _ in range(2):
        path = f"/s/{session}/v1/chat/completions"
        response = setup.post(path, body, x_contextrender_budget="300")
        assert response.headers["x-contextrender-fail-open"] == reason
        tokens = [
            response.headers[f"x-contextrender-tokens-{name}"] for name in ("before", "after")
        ]
        assert tokens[0] == tokens[1]
    assert setup.proxy.histories.failures.counts()[reason] == before + 1
    fit = setup.service.fit(uuid.uuid4().hex, messages, budget=300)
    assert (fit.failure, fit.changed) == (reason, False)


@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_unnamed_fit_histories_have_separate_sessions(
    setup: Setup, credentials: Credentials, dialect: str
) -> None:
    """This also holds for a new client."""
    hello = [user(f"hello {uuid.uuid4().hex}"), assistant("Hello.")]
    history_a = [*hello, user("I am A."), assistant(SECRET)]
    history_b = [*hello, user("I am B."), assistant("of B")]
    histories = [history_a, history_b, [*history_b, user("on")], [*history_a, user("on")]]

    def fit(client: ContextRender, messages: list[Json]) -> None:
        body: Any = {"messages": messages} if dialect == "messages" else messages
        assert not client.fit(None, body, dialect=dialect).failure

    with ContextRender(credentials.url, credentials.token) as client:
        for messages in histories:
            fit(client, messages)
        count = len(client.list_sessions(query=hello[0]["content"])["sessions"])
    for messages in histories[2:]:
        with ContextRender(credentials.url, credentials.token) as other:
            fit(other, messages)
            sessions = other.list_sessions(query=hello[0]["content"])["sessions"]
            assert (count, len(sessions)) == (2, 2)
            assert [session["branches"] for session in sessions] == [1, 1]
            owners = ["DEMO-1111" in str(other.export_session(s["session"])) for s in sessions]
            assert sorted(owners) == [False, True]


def test_unnamed_compactions_have_separate_sessions(setup: Setup) -> None:
    hello = [user(f"hello {uuid.uuid4().hex}"), assistant("Hello.")]
    history_a = [*hello, user("I am A."), *tool_step("a1", SECRET), user("on")]
    history_b = [*hello, user("I am B."), *tool_step("b1", "of B"), user("DEMO-1111?")]
    names = []
    for messages in (history_a, history_b, history_a):
        response = setup.post("/v1/compact", {"messages": messages})
        assert response.status_code == 200
        names.append(response.json()["session"])
        assert (SECRET in response.text) == (messages is history_a)
    assert names[0] == names[2] != names[1]
