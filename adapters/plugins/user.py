"""A user who has a plugin installed in a real agent, whose model is scripted."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from contextrender_bridge import Credentials
from contextrender_bridge.client.credentials import stored_credentials
from contextrender_bridge.leases import FOLDER, started_at
from contextrender_bridge.local_service import START_SECONDS, is_service_running

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import CommandResult, run
from adapters.testing.installs import environment
from adapters.testing.scripted import Call, Say, Script, Step
from tests.support.command import PROCESS
from tests.support.scripted_model import Model, ModelRequest, Reply, json_reply, serving
from tests.support.waiting import wait_until

MARK = "[ContextRender compaction: branch "
TEXT_END = "[End of the ContextRender compaction]"


@dataclass
class User:
    """A user with a home, a work folder with the hosts' files, and a data folder.

    The data folder has the address of the service.
    """

    loopback: Loopback
    folder: Path
    name: str
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        self._share_compiled_code()
        hosts.write_files(self.work)
        self.data.mkdir(exist_ok=True)
        self.use_service(self.loopback.service)
        self.bin.mkdir(exist_ok=True)

    def _share_compiled_code(self) -> None:
        """Let a service that the plugin starts use the compiled Jac code in this user's cache.

        On a busy machine it would compile the code for minutes.
        """
        user_cache = Path("~/.cache/jac").expanduser()
        user_cache.mkdir(parents=True, exist_ok=True)
        agent_cache = self.home / ".cache" / "jac"
        agent_cache.parent.mkdir(exist_ok=True)
        if not agent_cache.exists():
            agent_cache.symlink_to(user_cache)

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

    @property
    def program(self) -> Path:
        """The agent's program."""
        return self.bin / self.name

    def use_service(self, credentials: Credentials) -> None:
        """Write the address and token of the service that the plugin finds."""
        credentials.save(self.data)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of the agent and of the command `contextrender`."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        variables = {"HOME": str(self.home), "PATH": path, "CONTEXTRENDER_DATA": str(self.data)}
        return environment(**variables, **self.variables)

    def contextrender(self, *words: str, fails: bool = False) -> CommandResult:
        """Run the command `contextrender`."""
        return run([*PROCESS, *words], self.environment, self.work, fails=fails)

    def install(self, *options: str) -> CommandResult:
        """Install the plugin."""
        return self.contextrender("install", self.name, *options)

    def forbid_start(self) -> None:
        """Prevent plugins from starting a service: replace the folder of its leases by a file."""
        leases = self.data / FOLDER
        shutil.rmtree(leases, ignore_errors=True)
        leases.write_text("")

    @contextmanager
    def started_service(self) -> Iterator[None]:
        """Stop the data folder's service, which the plugin starts, when the block ends."""
        try:
            yield
        finally:
            # Any command: a plugin's process may be about to start the service.
            self._signal("", signal.SIGTERM)

    def kill_service(self) -> None:
        """Kill the data folder's service, and wait until it has ended."""
        address = stored_credentials(self.data).url
        self._signal("serve .*", signal.SIGKILL)
        wait_until(lambda: not is_service_running(address))

    def _signal(self, command: str, number: signal.Signals) -> None:
        """Send a signal to the processes with the data folder after `command` in their arguments.

        `command` is a regular expression, empty for any command.
        """
        search = ["pgrep", "-f", f"{command} {self.data.resolve()}"]
        process = subprocess.run(search, capture_output=True, text=True, check=False)
        for pid in process.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)

    def wait_for_service(self) -> None:
        """Wait until the data folder's service answers."""
        wait_until(
            lambda: is_service_running(stored_credentials(self.data).url), seconds=START_SECONDS
        )

    def lease_holders(self) -> set[Path]:
        """Return the programs of the running processes that have a lease of the service."""
        leases = [lease.name.partition("-") for lease in (self.data / FOLDER).iterdir()]
        running = [pid for pid, _, start in leases if started_at(int(pid)) == start]
        return {Path(f"/proc/{pid}/exe").resolve() for pid in running}


def looks(count: int) -> list[Step]:
    """Return steps that look at the first `count` hosts, and an answer."""
    return [*(Call("look", {"host": f"host_{n}_X"}) for n in range(count)), Say("All.")]


@dataclass
class UsageScript(Script):
    """A model that reports the size of each prompt in tokens. Four bytes count as one token."""

    def answer(self, request: ModelRequest) -> Reply:
        """Return the next step, with the prompt's size."""
        reply = super().answer(request)
        size = str(len(request.body) // 4).encode()
        chunks = [_USAGE.sub(rb"\g<1>" + size, chunk) for chunk in reply.chunks]
        return replace(reply, chunks=chunks)


_USAGE = re.compile(rb'("(?:input_tokens|prompt_tokens|total_tokens)" ?: ?)(?:9|13)\b')


@contextmanager
def false_service(answer: Callable[[ModelRequest], Reply]) -> Iterator[Credentials]:
    """Serve a program that answers requests instead of the service, and yield its credentials."""
    model = Model()
    model.answer = answer
    with serving(model, lifespan="off") as url:
        yield Credentials(url, "token")


def false_answers() -> dict[str, Callable[[ModelRequest], Reply]]:
    """Return answers of a service that is slow, wrong or broken, by name."""
    text = {"text": "x", "tokens": 1, "results": 1, "complete": 1, "excerpts": 0}
    large = {**text, "text": "too large " * 100_000}
    half = json_reply(text)
    return {
        "slow": lambda request: replace(json_reply(text), pause=30.0, late=True),
        "no JSON": lambda request: Reply([b"<html>"]),
        "no text": lambda request: json_reply({**text, "text": " "}),
        "too large a text": lambda request: json_reply(large),
        "no counts": lambda request: json_reply({"text": "x"}),
        "an error": lambda request: json_reply(
            {"error": {"code": "busy", "message": "Try again."}}, 503
        ),
        "half an answer": lambda request: replace(half, chunks=[half.body[:-9]], breaks=True),
    }
