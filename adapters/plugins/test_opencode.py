"""The plugin in opencode, in the newest and the oldest supported version.

`opencode serve` is what opencode's terminal interface runs; its events have the shown messages.
"""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import Credentials

from adapters.conftest import Loopback
from adapters.plugins.lines import running
from adapters.plugins.user import (
    MARK,
    User,
    count_text,
    false_answers,
    false_service,
    looks,
)
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Json, Say, Script, Step
from adapters.wrap.test_opencode import Full, adapt_to_tools
from tests.support.programs import free_port
from tests.support.scripted_model import ModelRequest, Reply
from tests.support.waiting import until

VERSIONS = ("newest", "oldest")
LIMIT = {"context": 40_000, "output": 1_000}


@pytest.fixture(scope="session")
def config_homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a settings folder per version; opencode installs packages there at its first start."""
    return {version: tmp_path_factory.mktemp(version) for version in VERSIONS}


@pytest.fixture(params=VERSIONS)
def opencode(
    request: pytest.FixtureRequest,
    loopback: Loopback,
    tmp_path: Path,
    config_homes: dict[str, Path],
) -> Iterator[User]:
    """Create a user of opencode whose model has a small window."""
    program = node_modules_of("plugins/opencode") / request.param / "bin" / "opencode"
    variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    for place in ("DATA", "CACHE", "STATE"):
        variables[f"XDG_{place}_HOME"] = str(tmp_path / "home" / place.lower())
    variables["XDG_CONFIG_HOME"] = str(config_homes[request.param])
    variables["PWD"] = str(tmp_path / "work")
    user = User(loopback, tmp_path, program, "opencode", variables)
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{loopback.model.url}/v1", "apiKey": "sk-own"},
        "models": {"scripted": {"name": "scripted", "tool_call": True, "limit": LIMIT}},
    }
    config = {
        "model": "local/scripted",
        "small_model": "local/scripted",
        "permission": {"*": "allow"},
        "compaction": {"tail_turns": 2, "preserve_recent_tokens": 8_000},
        "provider": {"local": local},
    }
    (user.work / "opencode.json").write_text(json.dumps(config))
    yield user
    shutil.rmtree(config_homes[request.param] / "opencode" / "plugins", ignore_errors=True)


def test_compaction_shows_each_result_once(opencode: User) -> None:
    """The text leaves out the messages that opencode keeps beside its summary."""
    opencode.install()
    turns = [*looks(2)[:-1], Say("First."), *looks(3)[2:-1], Say("Second."), *looks(9)[3:]]
    steps = [adapt_to_tools(step, opencode.work) for step in turns]
    script = Full(opencode.loopback.model, steps)
    first = opencode.run("run", "--format", "json", "Look at two hosts.")
    session = json.loads(first.stdout.splitlines()[0])["sessionID"]
    for question in ("Look at one more.", "Look at the others."):
        opencode.run("run", "--format", "json", "-s", session, question)
    compacted = [body for body in script.requests if count_text(body["messages"], MARK)]
    assert compacted
    for body in compacted:
        text = json.dumps(body["messages"])
        assert text.count(MARK) == 1
        assert hosts.MARKS[0] in text
        assert [text.count(mark) for mark in hosts.MARKS if text.count(mark) > 1] == []


TASK = "Look at three hosts."


@dataclass
class Server:
    """A running `opencode serve`, with the events that it sends and one session."""

    user: User
    url: str
    session: str = ""
    events: list[Json] = field(default_factory=list)

    def post(self, path: str, **fields: object) -> Json:
        """Return the answer to a request."""
        reply = httpx.post(f"{self.url}{path}", json=fields, timeout=120)
        assert reply.is_success, reply.text
        answer: Json = reply.json()
        return answer

    def ask(self, question: str) -> None:
        """Have the agent answer."""
        self.session = self.session or str(self.post("/session")["id"])
        parts = [{"type": "text", "text": question}]
        self.post(f"/session/{self.session}/message", parts=parts)

    def compact(self) -> None:
        """Compact the history."""
        model = {"providerID": "local", "modelID": "scripted"}
        self.post(f"/session/{self.session}/summarize", **model)

    def listen(self) -> None:
        """Keep the events until the server ends. `/event` of 1.17.0 has no lines by a plugin."""
        with (
            suppress(httpx.HTTPError),
            httpx.stream("GET", f"{self.url}/global/event", timeout=None) as reply,
        ):
            for line in reply.iter_lines():
                if line.startswith("data:"):
                    self.events.append(json.loads(line.removeprefix("data:"))["payload"])

    @property
    def notices(self) -> list[str]:
        """The lines that the plugin showed to the user."""
        events = [event for event in self.events if event["type"] == "tui.toast.show"]
        return [event["properties"]["message"] for event in events]

    def wait_for_lines(self, count: int) -> list[str]:
        """Return the lines once there are as many."""
        until(lambda: len(self.notices) >= count, why=lambda: self.notices)
        return self.notices


@contextmanager
def serving_opencode(user: User, session: str = "") -> Iterator[Server]:
    """Run `opencode serve` until the block ends."""
    with running(user, "serve", "--port", str(free_port())) as lines:
        first = next(line for line in lines.output if "listening on" in line)
        server = Server(user, first.split()[-1], session)
        listener = threading.Thread(target=server.listen, daemon=True)
        listener.start()
        until(lambda: server.events, seconds=300)  # the server says that it is connected
        yield server
    listener.join()


def adapt_step(step: Step, work: Path) -> Step:
    is_host = isinstance(step, Call) and "host" in step.arguments
    return adapt_to_tools(step, work) if is_host else step


def script_of(user: User, *steps: Step) -> Script:
    return Script(user.loopback.model, [adapt_step(step, user.work) for step in steps])


def test_manual_compactions_are_replaced_and_resumed(opencode: User) -> None:
    """The second text is selected from all results and replaces the first one."""
    opencode.install()
    steps = [*looks(3), Say("Done."), *looks(6)[3:], Say("Done."), Say("Resumed.")]
    script = script_of(opencode, *steps)
    with serving_opencode(opencode) as server:
        server.ask(TASK)
        server.compact()
        server.ask("And now?")
        server.ask("And the next three?")
        server.compact()
        server.ask("And then?")
        first, second = server.wait_for_lines(2)
    assert first.startswith("ContextRender kept ") and " of 3 results in " in first
    assert second.startswith("ContextRender kept ") and " of 6 results in " in second
    with serving_opencode(opencode, server.session) as server:
        server.ask("Resume.")
    texts = [json.dumps(body["messages"]) for body in script.requests]
    assert len(texts) == len(steps)
    for text in texts[4:]:
        assert text.count(MARK) == 1
        assert [text.count(mark) for mark in hosts.MARKS[:3]] == [1] * 3
        assert "A title" not in text  # the summary by the model's double
    for text in texts[-2:]:
        assert [text.count(mark) for mark in hosts.MARKS[:6]] == [1] * 6
    assert server.session in {session["session"] for session in opencode.loopback.sessions()}


@pytest.mark.parametrize("failure", ["down", *false_answers()])
def test_agents_summary_is_kept_without_answer(opencode: User, failure: str) -> None:
    """The text is requested once, so that a slow service does not delay each call."""
    opencode.install()
    opencode.forbid_start()
    script = script_of(opencode, *looks(3), Say("Done."), Say("Done."))
    paths: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        paths.append(request.path)
        return false_answers()[failure](request)

    with false_service(answer) as credentials:
        down = Credentials("http://127.0.0.1:9", "none")
        opencode.use_service(down if failure == "down" else credentials)
        with serving_opencode(opencode) as server:
            server.ask(TASK)
            server.compact()
            server.ask("And now?")
            server.ask("And then?")
            (line,) = server.wait_for_lines(1)
    assert line.startswith("ContextRender left this compaction to opencode. ")
    assert ("did not answer within 5 s" in line) == (failure == "slow")
    assert paths == ([] if failure == "down" else ["/v1/compact"])
    for body in script.requests[-2:]:
        after = json.dumps(body["messages"])
        assert MARK not in after
        assert "A title" in after  # the summary by the model's double


def test_killed_service_is_restarted_for_next_compaction(opencode: User) -> None:
    opencode.install()
    script = script_of(opencode, *looks(3), *[Say("Done.")] * 3)
    with opencode.started_service(), serving_opencode(opencode) as server:
        server.ask(TASK)
        opencode.use_service(Credentials("http://127.0.0.1:9", "none"))
        server.compact()
        server.ask("And now?")
        opencode.wait_for_service()
        holders = opencode.lease_holders()
        assert {program.name for program in holders} == {opencode.program.name}, holders
        server.ask("And again?")
        server.compact()
        server.ask("And then?")
        first, second = server.wait_for_lines(2)
    assert "is not running; it is started for the next time" in first
    assert second.startswith("ContextRender kept ")
    assert [count_text(body["messages"], MARK) for body in script.requests[-3:]] == [0, 0, 1]


def test_recall_finds_omitted_results(opencode: User) -> None:
    opencode.install("--tokens", "2000")
    hosts.lengthen(opencode.work, [200] * 6)
    recall = Call("contextrender_recall", {"query": "host_1_X"})
    script = script_of(opencode, *looks(6), recall, Say("Done."))
    with serving_opencode(opencode) as server:
        server.ask("Look at six hosts.")
        server.compact()
        server.ask("Recall.")
    before, after = script.requests[-2:]
    assert "[Excerpt: " in json.dumps(before["messages"])
    assert "row 00150" in json.dumps(after["messages"][-1])


def test_agents_summary_comes_first(opencode: User) -> None:
    opencode.install("--mode", "after-summary")
    script = script_of(opencode, *looks(3), Say("Done."))
    with serving_opencode(opencode) as server:
        server.ask(TASK)
        server.compact()
        server.ask("And now?")
    text = json.dumps(script.requests[-1]["messages"])
    assert text.count(MARK) == 1
    assert text.index("A title") < text.index(MARK)


def test_each_call_is_rendered(opencode: User) -> None:
    opencode.install("--mode", "render")
    hosts.lengthen(opencode.work, [1_000] * 9)
    script = script_of(opencode, *looks(9), Say("Done."))
    with serving_opencode(opencode) as server:
        server.ask("Look at nine hosts.")
        opencode.forbid_start()
        opencode.use_service(Credentials("http://127.0.0.1:9", "none"))
        server.ask("And now?")
    read = sum((opencode.work / f"host_{n}_X.txt").stat().st_size for n in range(9))
    sizes = [len(json.dumps(body["messages"])) for body in script.requests]
    assert sizes[-2] < 0.6 * read < sizes[-1]  # without the service the whole history is sent
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:10]):
        assert number in marks
    posts = [one for one in opencode.loopback.model.asked if one.method == "POST"]
    assert {one.header("authorization") for one in posts} == {"Bearer sk-own"}


def test_uninstall_removes_everything(opencode: User) -> None:
    script = script_of(opencode, Say("Done."), Say("Done."))
    opencode.install()
    opencode.install()
    with serving_opencode(opencode) as server:
        server.ask("Hello.")
    opencode.contextrender("uninstall", "opencode")
    config = Path(opencode.variables["XDG_CONFIG_HOME"])
    assert list(config.rglob("*contextrender*")) == []
    with serving_opencode(opencode) as server:
        server.ask("Hello.")
    assert "contextrender_recall" in json.dumps(script.requests[0]["tools"])
    assert "contextrender" not in json.dumps(script.requests[1]["tools"])
