"""A success is on disk, a failure writes nothing, and memory is never ahead of the store."""

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
from tests.server.servers import another_server
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
    """Hold the store's write lock in another process."""
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
    """Create users of a server that waits 0.1 s for the store instead of 5 s."""
    with another_server(service.data, patient=False) as server, ExitStack() as stack:

        def new_user() -> User:
            account = service.new_user()
            return replace(account, api=stack.enter_context(server.api(account.api.token)))

        yield new_user


BRANCH = [*RUN[:4], assistant("Or else?"), user("Go on.")]
WRITES: list[tuple[str, Json]] = [
    ("sync", {"session": "new", "messages": RUN[:3]}),
    ("render", {"session": "s", "messages": RUN[:12], "budget": 300}),
    ("sync", {"session": "s", "messages": BRANCH}),
    ("render", {"session": "s", "messages": RUN[:8], "budget": 300}),  # writes only vectors
    ("sync", {"session": "s", "messages": RUN[:8], "settings": {"budget": 999}}),
    ("import_session", {"session": "copy"}),
    ("delete_session", {"session": "s"}),
]


@pytest.mark.parametrize(("walker", "fields"), WRITES)
def test_failed_commit_writes_nothing(impatient: NewUser, walker: str, fields: Json) -> None:
    alice, bob = impatient(), impatient()
    for account in (alice, bob):
        account.api("sync", session="s", messages=RUN[:8])
    if walker == "import_session":
        fields = {**fields, "data": alice.api("export_session", session="s")}
    before = alice.graph()
    explained = alice.api("explain", session="s", budget=300)
    with store_locked(alice.data):
        for _ in range(2):
            error = alice.api.refused(walker, 503, "storage_unavailable", **fields)
            assert "nothing was written" in error["message"]
        assert alice.api("explain", session="s", budget=300) == explained
    assert alice.graph() == before
    assert alice.api(walker, **fields) == bob.api(walker, **fields)
    assert alice.graph().counts == bob.graph().counts
    alice.graph().check()
    vectors = [node.fields.get("embedding") for node in alice.graph().of("ToolResult")]
    assert vectors == [node.fields.get("embedding") for node in bob.graph().of("ToolResult")]


@pytest.mark.parametrize("policy", ["contextrender", "contextrender_cache_aware"])
def test_early_answer_is_equal_and_recorded(service: Service, policy: str) -> None:
    """One policy ranks results by the reuse found so far; the other policy reads it later."""
    alice, bob = service.new_user(), service.new_user()
    early, usual = Conversation(alice.api, "s"), Conversation(bob.api, "s")
    for count in range(5, 20, 2):
        fields = {"budget": 300, "policy": policy, "output": "plan"}
        assert early.send("render", RUN[:count], **fields, answer_before_commit=True) == usual.send(
            "render", RUN[:count], **fields
        )
    query = {"session": "s", "budget": 300, "policy": policy}
    assert alice.api("explain", **query) == bob.api("explain", **query)
    assert alice.graph().counts == bob.graph().counts


def test_full_history_is_requested_when_early_answer_was_not_written(impatient: NewUser) -> None:
    alice, bob = impatient(), impatient()
    for account in (alice, bob):
        account.api("sync", session="s", messages=RUN[:8])
    before = alice.graph()
    fields = {"session": "s", "budget": 300}
    with store_locked(alice.data):
        reply = alice.api("render", messages=RUN[:12], answer_before_commit=True, **fields)
        # Wait until the previous call has given up.
        alice.api("explain", **fields)
    assert reply == bob.api("render", messages=RUN[:12], **fields)
    assert alice.graph() == before
    place = {"offset": reply["offset"], "prefix": reply["digest"]}
    alice.api.refused("render", 409, "history_diverged", messages=RUN[12:14], **place, **fields)
    full_request = {"messages": RUN[:14], **fields}
    assert alice.api("render", **full_request) == bob.api("render", **full_request)
    alice.graph().check()
