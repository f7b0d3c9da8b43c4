"""The agents: each a driver that runs in the agent's own Python, told by arguments what to do.

`driver.py missing` prints {"missing": sentence or ""}, `tasks` {"tasks": [ids]} and `run` as its
last line {"score": 0 to 1}.
"""

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

DRIVERS = Path(__file__).parent / "drivers"
TASK_SECONDS = 3600


class AgentFailed(Exception):
    """The driver ended without what was asked of it."""


@dataclass(frozen=True)
class Agent:
    """One agent: what its score is called, and where to run it."""

    name: str
    title: str
    metric: str
    python: Path = Path()
    root: Path | None = None
    split: str = ""

    def at(self, python: Path, root: Path | None, split: str) -> Self:
        """The agent in that Python, with that checkout and split."""
        return replace(self, python=python, root=root, split=split or self.split)

    def missing(self) -> str:
        """What is missing to run it, in one sentence; empty when nothing is."""
        if not self.python.exists():
            return f"{self.title} has no Python at {self.python}: name its own with --python."
        return str(self._ask("missing")["missing"])

    def tasks(self, limit: int | None) -> list[str]:
        """The tasks' ids, at most `limit` of them."""
        found: list[str] = self._ask("tasks")["tasks"]
        return found[:limit]

    def run(self, task: str, url: str, model: str, steps: int) -> float:
        """The score of one task, from 0 to 1. Raises AgentFailed."""
        options = ["--task", task, "--url", url, "--model", model, "--steps", str(steps)]
        return float(self._ask("run", *options)["score"])

    def _ask(self, what: str, *options: str) -> dict[str, Any]:
        driver = DRIVERS / f"{self.name.replace('-', '_')}.py"
        command = [str(self.python), str(driver), what, "--split", self.split, *options]
        command += ["--root", str(self.root)] if self.root else []
        environment = {**os.environ, "OPENAI_API_KEY": "gateway"}
        if "--url" in options:
            url = options[options.index("--url") + 1]
            environment |= {"OPENAI_BASE_URL": url, "OPENAI_API_BASE": url}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=TASK_SECONDS,
                env=environment,
            )
            answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        except subprocess.TimeoutExpired:
            raise AgentFailed(f"{self.name} took over {TASK_SECONDS} s for {what}.") from None
        except (IndexError, ValueError):
            said = done.stderr.strip()[-1500:]
            raise AgentFailed(f"{self.name} gave no answer to {what!r}.\n{said}") from None
        return answer


AGENTS = {
    agent.name: agent
    for agent in (
        Agent("appworld-react", "AppWorld's ReAct agent", "TGC", split="test_normal"),
        Agent("acon-qa8", "ACON's 8-objective QA agent", "F1", split="test"),
        Agent("synthetic", "Synthetic task (made up, to test the harness)", "F1"),
    )
}
