"""A success is on disk; a failure is nothing; memory is never ahead of the graph."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Conversation
from tests.api.conftest import Service, User
from tests.api.servers import another
from tests.support.transcripts import agent_run, assistant, user

RUN = agent_run(20, lines=5)
LOCKS_THE_STORE = """
import os, sqlite3, sys
import psycopg
if address := os.environ.get("CONTEXTRENDER_DATABASE"):
    store = psycopg.connect(address)
    store.execute("LOCK TABLE nodes IN EXCLUSIVE MODE")
else:
    store = sqlite3.connect(sys.argv[1], isolation_level=None)
    store.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def store_locked(data: Path) -> Iterator[None]:
    """Another process holds the store's write lock for the block."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCKS_THE_STORE, str(data / "store.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield
        process.kill()


NewUser = Callable[[], User]


@pytest.fixture(scope="module")
def impatient(service: Service) -> Iterator[NewUser]:
    """Makes users of a server that waits for the store a tenth of a second, not five."""
    with another(service.data, patient=False) as server, ExitStack() as stack:

        def new_user() -> User:
            made = service.new_user()
            return replace(made, api=stack.enter_context(server.api(made.api.token)))

        yield new_user


@pytest.mark.slow
def test_killed_right_after_each_reply_nothing_is_lost(service: Service) -> None:
    alice = service.new_user()
    talk = Conversation(alice.api, "s")
    for number in range(3):
        with another(service.data) as server, server.api(alice.api.token) as api:
            talk.api = api
            reply = talk.send("sync" if number % 2 else "render", RUN[: 3 + 2 * number])
            server.stop(signal.SIGKILL)
        assert reply["offset"] == 3 + 2 * number
    (branch,) = alice.api("export_session", session="s")["branches"]
    assert branch["messages"] == RUN[:7]
    alice.graph().check()
    rendered = alice.api("render", session="s", messages=RUN[:7], budget=700)
    alone = alice.api("render", session="alone", messages=RUN[:7], budget=700)
    assert rendered == alone | {"session": "s"}


WRITES = [
    *("a new session", "more messages", "a branch", "vectors alone", "settings alone"),
    *("an import", "a delete"),
]


def writes(alice: User) -> dict[str, tuple[str, Json]]:
    """Every kind of call that writes, on a session that is there."""
    export = alice.api("export_session", session="s")
    rewritten = [*RUN[:4], assistant("Or else?"), user("Go on.")]
    return {
        "a new session": ("sync", {"session": "new", "messages": RUN[:3]}),
        "more messages": ("render", {"session": "s", "messages": RUN[:12], "budget": 300}),
        "a branch": ("sync", {"session": "s", "messages": rewritten}),
        "vectors alone": ("render", {"session": "s", "messages": RUN[:8], "budget": 300}),
        "settings alone": (
            "sync",
            {"session": "s", "messages": RUN[:8], "settings": {"budget": 999}},
        ),
        "an import": ("import_session", {"session": "copy", "data": export}),
        "a delete": ("delete_session", {"session": "s"}),
    }


@pytest.mark.parametrize("case", WRITES)
def test_a_failed_commit_is_an_error_leaves_nothing_and_the_next_call_works(
    impatient: NewUser, case: str
) -> None:
    alice, bob = impatient(), impatient()
    for each in (alice, bob):
        each.api("sync", session="s", messages=RUN[:8])
    walker, fields = writes(alice)[case]
    before = alice.graph()
    explained = alice.api("explain", session="s", budget=300)
    with store_locked(alice.data):
        for _ in range(2):
            error = alice.api.refused(walker, 503, "storage", **fields)
            assert "nothing was written" in error["message"]
        assert alice.api("explain", session="s", budget=300) == explained
    assert alice.graph() == before
    assert alice.api(walker, **fields) == bob.api(walker, **fields)
    assert alice.graph().counts == bob.graph().counts
    alice.graph().check()
    vectors = [node.fields.get("embedding") for node in alice.graph().of("ToolResult")]
    assert vectors == [node.fields.get("embedding") for node in bob.graph().of("ToolResult")]


@pytest.mark.parametrize("policy", ["contextrender", "contextrender_frozen"])
def test_an_early_answer_is_the_same_and_what_it_tells_is_recorded(
    service: Service, policy: str
) -> None:
    """Of a policy that ranks by what was traced before, and of one that needs it later."""
    alice, bob = service.new_user(), service.new_user()
    early, usual = Conversation(alice.api, "s"), Conversation(bob.api, "s")
    for count in range(5, 20, 2):
        fields = {"budget": 300, "policy": policy, "want": "plan"}
        assert early.send("render", RUN[:count], **fields, early=True) == usual.send(
            "render", RUN[:count], **fields
        )
    asked = {"session": "s", "budget": 300, "policy": policy}
    assert alice.api("explain", **asked) == bob.api("explain", **asked)
    assert alice.graph().counts == bob.graph().counts


def test_what_an_early_answer_could_not_write_is_asked_for_again(impatient: NewUser) -> None:
    alice, bob = impatient(), impatient()
    for each in (alice, bob):
        each.api("sync", session="s", messages=RUN[:8])
    before = alice.graph()
    fields = {"session": "s", "budget": 300}
    with store_locked(alice.data):
        told = alice.api("render", messages=RUN[:12], early=True, **fields)
        # Waits until the one before has given up.
        alice.api("explain", **fields)
    assert told == bob.api("render", messages=RUN[:12], **fields)
    assert alice.graph() == before
    place = {"offset": told["offset"], "prefix": told["digest"]}
    alice.api.refused("render", 409, "history_diverged", messages=RUN[12:14], **place, **fields)
    whole = {"messages": RUN[:14], **fields}
    assert alice.api("render", **whole) == bob.api("render", **whole)
    alice.graph().check()


def test_after_a_failed_commit_a_session_goes_on_without_a_gap(impatient: NewUser) -> None:
    alice = impatient()
    talk = Conversation(alice.api, "s")
    talk.send("render", RUN[:6])
    piece = {"session": "s", "offset": 6, "prefix": talk.prefix, "messages": RUN[6:10]}
    with store_locked(alice.data):
        alice.api.refused("render", 503, "storage", **piece)
        assert alice.api("inspect_session", session="s")["session"]["messages"] == 6
        assert len(alice.api("export_session", session="s")["branches"][0]["messages"]) == 6
    assert talk.send("sync", RUN[:7])["recorded"] == 1
    assert talk.send("sync", RUN[:10])["recorded"] == 3
    assert talk.send("sync", RUN)["branch"] == 0
    (branch,) = alice.api("export_session", session="s")["branches"]
    assert branch["messages"] == RUN
