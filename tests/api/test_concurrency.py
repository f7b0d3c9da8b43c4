"""Concurrent writers lose nothing that was acknowledged, and the graph stays consistent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.server.servers import Server, another_server
from tests.support.plain_graph import check_graph
from tests.support.transcripts import agent_run, assistant, call, result

START = agent_run(2)
WRITERS = 8
STEPS = 3


@pytest.fixture(scope="module")
def other(service: Service) -> Iterator[Server]:
    with another_server(service.data) as server:
        yield server


@pytest.fixture
def writers(other: Server, alice: User) -> Iterator[list[Api]]:
    """Return one user's connections, half of them to another process with the same data."""
    with ExitStack() as stack:
        remote = [stack.enter_context(other.api(alice.api.token)) for _ in range(WRITERS // 2)]
        yield [*remote, *[alice.api] * (WRITERS // 2)]


def branch_histories(export: Json) -> list[list[Json]]:
    histories: list[list[Json]] = []
    for branch in export["branches"]:
        shared = (
            histories[branch["parent"]][: branch["fork_position"]] if branch["parent"] >= 0 else []
        )
        histories.append([*shared, *branch["messages"]])
    return histories


def send_new(api: Api, transcript: list[Json], place: Json) -> Json:
    """Send the new messages, or the full history if they are refused."""
    shape: Json = {"session": "s", "budget": 300, "output": "plan"}
    reply = api.post("render", **shape, messages=transcript[place["offset"] :], **place)
    if reply.status_code == 409:
        return dict(api("render", **shape, messages=transcript))
    assert reply.status_code == 200, reply.text
    return dict(reply.json()["reports"][0])


def work(api: Api, writer: int) -> list[list[Json]]:
    """Return every history that was acknowledged to one writer.

    Even writers continue their own history, odd ones the history written last.
    """
    acknowledged = []
    transcript, place = START, {"offset": 0, "prefix": ""}
    for step in range(STEPS):
        if writer % 2:
            export = api("export_session", session="s")
            transcript, place = (
                branch_histories(export)[export["head"]],
                {"offset": 0, "prefix": ""},
            )
        name = f"writer_{writer}_step_{step}"
        transcript = [
            *transcript,
            assistant(f"I look at {name}.", call(name, "look", f'{{"at": "{name}"}}')),
            result(name, f"{name} is fine, unlike writer_{(writer + 1) % WRITERS}_step_{step}"),
        ]
        reply = send_new(api, transcript, place)
        assert reply["offset"] == len(transcript)
        place = {"offset": reply["offset"], "prefix": reply["digest"]}
        acknowledged.append(transcript)
    return acknowledged


def test_eight_writers_on_one_session_lose_nothing(alice: User, writers: list[Api]) -> None:
    alice.api("sync", session="s", messages=START)
    with ThreadPoolExecutor(WRITERS) as threads:
        acknowledged_by_writer = list(threads.map(work, writers, range(WRITERS)))
    export = alice.api("export_session", session="s")
    histories = branch_histories(export)
    for transcript in (
        transcript for transcripts in acknowledged_by_writer for transcript in transcripts
    ):
        assert any(line[: len(transcript)] == transcript for line in histories)
    stored_count = sum(len(branch["messages"]) for branch in export["branches"])
    assert stored_count == len(START) + 2 * WRITERS * STEPS
    check_graph(alice.graph(), {"s": histories})
    alice.api("import_session", session="copy", data=export)
    for number, line in enumerate(histories):
        reply = alice.api("render", session="s", messages=line, budget=300)
        assert reply["branch"] == number
        copied = alice.api("render", session="copy", messages=line, budget=300)
        assert reply == copied | {"session": "s"}


def test_call_sent_eight_times_at_once_is_recorded_once(
    alice: User, bob: User, writers: list[Api]
) -> None:
    fields = {"session": "s", "messages": agent_run(6), "budget": 600}
    for _ in range(3):
        with ThreadPoolExecutor(WRITERS) as threads:
            replies = list(threads.map(lambda api: api("render", **fields), writers))
        assert [reply == replies[0] for reply in replies] == [True] * WRITERS
    assert replies[0] == bob.api("render", **fields)
    assert alice.graph().counts == bob.graph().counts


def test_session_deleted_during_writes_stays_consistent(alice: User, writers: list[Api]) -> None:
    run = agent_run(5)

    def write_or_delete(writer: int) -> None:
        for step in range(5):
            if writer % 4 == 3:
                assert writers[writer].post("delete_session", session="s").status_code in (200, 404)
            else:
                writers[writer]("render", session="s", messages=run[: 4 + step], budget=300)

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(write_or_delete, range(WRITERS)))
    alice.api("sync", session="s", messages=run)
    alice.graph().check()
    assert branch_histories(alice.api("export_session", session="s"))[0] == run
    alice.api("delete_session", session="s")
    assert alice.graph().counts == {}
