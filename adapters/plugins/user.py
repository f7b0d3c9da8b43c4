"""A user who has a plugin installed in a real agent, whose model is scripted."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from contextrender_bridge import Credentials
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.credentials import stored_credentials
from contextrender_bridge.leases import FOLDER, started_at
from contextrender_bridge.local_service import answers

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import CommandResult, run
from adapters.testing.installs import environment
from adapters.testing.scripted import Call, Say, Script, Step
from tests.support.command import PROCESS
from tests.support.scripted_model import Model, ModelRequest, Reply, json_reply, serving
from tests.support.waiting import until

MARK = "[ContextRender compaction: branch 0, "
TEXT_END = "[End of the ContextRender compaction]"


@dataclass
class User:
    """A home, a work folder with the hosts' files, and a data folder that names the service."""

    loopback: Loopback
    folder: Path
    program: Path
    name: str
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        hosts.write_files(self.work)
        self.data.mkdir(exist_ok=True)
        self.use_service(self.loopback.service)
        self.bin.mkdir(exist_ok=True)
        link = self.bin / self.name
        if not link.is_symlink():
            link.symlink_to(self.program)

    @property
    def home(self) -> Path:
        """The user's home."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The folder that the agent works in."""
        return self.folder / "work"

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @property
    def bin(self) -> Path:
        """A folder with the agent's program under its own name."""
        return self.folder / "bin"

    def use_service(self, credentials: Credentials) -> None:
        """Write the address and token of the service that the plugin finds."""
        credentials.save(self.data)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the agent and of our own command."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        variables = {"HOME": str(self.home), "PATH": path, "CONTEXTRENDER_DATA": str(self.data)}
        return environment(**variables, **self.variables)

    def contextrender(self, *words: str, fails: bool = False) -> CommandResult:
        """Run our own command."""
        return run([*PROCESS, *words], self.environment, self.work, fails=fails)

    def install(self, *options: str) -> CommandResult:
        """Install the plugin."""
        return self.contextrender("install", self.name, *options)

    def run(self, *words: str, seconds: float = 120) -> CommandResult:
        """Run the agent."""
        return run([self.bin / self.name, *words], self.environment, self.work, seconds=seconds)

    def forbid_start(self) -> None:
        """Have the installed plugin start nothing when the service does not answer."""
        config = Path(self.variables.get("XDG_CONFIG_HOME", self.folder))
        for path in (*self.folder.rglob("settings.js"), *config.rglob("contextrender/settings.js")):
            head, equals, settings = path.read_text().partition(" = ")
            changed = {**json.loads(settings), "start": ["/bin/false"]}
            path.write_text(f"{head}{equals}{json.dumps(changed)}\n")

    @contextmanager
    def started_service(self) -> Iterator[None]:
        """Stop the service over the data folder, which the plugin starts, at the end."""
        try:
            yield
        finally:
            # A plugin's command, which may still be about to start it, names the folder, too.
            process = subprocess.run(
                ["pgrep", "-f", f" {self.data.resolve()}"],
                capture_output=True,
                text=True,
                check=False,
            )
            for pid in process.stdout.split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGTERM)

    def wait_for_service(self) -> None:
        """Wait until the service over the data folder answers."""
        until(lambda: answers(stored_credentials(self.data).url))

    def lease_holders(self) -> set[Path]:
        """Return the programs of the processes that the service stays for."""
        leases = [lease.name.partition("-") for lease in (self.data / FOLDER).iterdir()]
        running = [pid for pid, _, start in leases if started_at(int(pid)) == start]
        return {Path(f"/proc/{pid}/exe").resolve() for pid in running}

    def files(self) -> dict[str, bytes]:
        """Return every file of the user's home."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file() and ".cache" not in path.parts  # the agent's own logs
        }


def looks(count: int) -> list[Step]:
    """Return steps that look at the first hosts, and an answer."""
    return [*(Call("look", {"host": f"host_{n}_X"}) for n in range(count)), Say("All.")]


def count_text(body: Json, text: str) -> int:
    """Return how often a request has a text, in any of its strings."""
    if isinstance(body, str):
        return body.count(text)
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return sum(count_text(value, text) for value in inner)


@dataclass
class Counting(Script):
    """A model that reports the size of each prompt in tokens, of four bytes each."""

    def answer(self, request: ModelRequest) -> Reply:
        """Return the next step, with the prompt's size."""
        reply = super().answer(request)
        size = str(len(request.body) // 4).encode()
        chunks = [_USAGE.sub(rb"\g<1>" + size, chunk) for chunk in reply.chunks]
        return replace(reply, chunks=chunks)


_USAGE = re.compile(rb'("(?:input_tokens|prompt_tokens)" ?: ?)9\b')


@contextmanager
def false_service(answer: Callable[[ModelRequest], Reply]) -> Iterator[Credentials]:
    """Serve a program that answers in the service's place."""
    model = Model()
    model.answer = answer
    with serving(model, lifespan="off") as url:
        yield Credentials(url, "token")


def false_answers() -> dict[str, Callable[[ModelRequest], Reply]]:
    """Return answers of a service that is slow, wrong or broken, by name."""
    text = {"text": "x", "tokens": 1, "results": 1, "complete": 1, "excerpts": 0}
    half = json_reply(text)
    return {
        "slow": lambda request: replace(json_reply(text), pause=30.0, late=True),
        "no JSON": lambda request: replace(json_reply({}), chunks=[b"<html>"]),
        "no text": lambda request: json_reply({**text, "text": " "}),
        "no counts": lambda request: json_reply({"text": "x"}),
        "an error": lambda request: json_reply(
            {"error": {"code": "busy", "message": "Try again."}}, 503
        ),
        "half an answer": lambda request: replace(half, chunks=[half.body[:-9]], breaks=True),
    }
