"""A user who has a plugin installed in a real agent, whose model is scripted."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contextrender_bridge import Credentials
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import Done, run
from adapters.testing.installs import environment
from adapters.testing.scripted import Call, Say, Step
from tests.support.command import PROCESS

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
        own = {"HOME": str(self.home), "PATH": path, "CONTEXTRENDER_DATA": str(self.data)}
        return environment(**own, **self.variables)

    def contextrender(self, *words: str, fails: bool = False) -> Done:
        """Run our own command."""
        return run([*PROCESS, *words], self.environment, self.work, fails=fails)

    def install(self, *options: str) -> Done:
        """Install the plugin."""
        return self.contextrender("install", self.name, *options)

    def run(self, *words: str, seconds: float = 120) -> Done:
        """Run the agent."""
        return run([self.bin / self.name, *words], self.environment, self.work, seconds=seconds)

    def files(self) -> dict[str, bytes]:
        """Return every file of the user's home."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file()
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
