"""Running `contextrender wrap` as a user does, and what it told at the end."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import Done, run
from adapters.testing.installs import environment

WRAP = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"
Json = dict[str, Any]


@dataclass
class Wrapped:
    """A user's home and work folder, and an agent of theirs in `bin`."""

    loopback: Loopback
    folder: Path
    bin: Path
    variables: dict[str, str] = field(default_factory=dict)
    report: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir()
        hosts.write_files(self.work)

    @property
    def home(self) -> Path:
        """The user's."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """Where the hosts' files are."""
        return self.folder / "work"

    def run(self, *words: str, options: Sequence[str] = (), fails: bool = False) -> Done:
        """The agent's run; `report` is what wrap told at its end."""
        small = ["--budget", str(hosts.BUDGET), "--policy", "contextrender", "--json", *options]
        own = environment(
            HOME=str(self.home),
            PATH=f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            CONTEXTRENDER_URL=self.loopback.service.url,
            CONTEXTRENDER_TOKEN=self.loopback.service.token,
            CONTEXTRENDER_DATA=str(self.folder / "data"),
            **self.variables,
        )
        command = [sys.executable, "-c", WRAP, "wrap", *small, *words]
        done = run(command, own, self.work, fails=fails)
        self.report = json.loads(done.stderr.splitlines()[-1])
        return done

    def check_left_nothing(self) -> None:
        """Nothing of the run is in ContextRender's own folder."""
        leases = self.folder / "data" / "leases"
        assert list(leases.iterdir()) == []
