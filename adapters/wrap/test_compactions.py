"""Compactions of pi, Hermes and OpenClaw are recognised, and sent as the agent wrote them.

The tests of Claude Code's, Codex's and opencode's compactions are beside the agents' other tests.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from contextrender_bridge.proxy.own_calls import is_compaction

from adapters.conftest import Loopback
from adapters.openclaw.test_openclaw import OpenClaw, adapt_to_tools
from adapters.plugins.agents.pi import Pi
from adapters.plugins.user import User, looks
from adapters.testing import hosts
from adapters.testing.scripted import Call, Json, Say, Script, Step, has_tools
from adapters.wrap.test_hermes import CHAT, configure, hermes, with_its_tools
from adapters.wrap.wrapped import WrappedAgent
from tests.support.scripted_model import ModelRequest, Reply

__all__ = ["hermes"]

pytestmark = pytest.mark.slow


@dataclass
class SummaryScript(Script):
    """A model that keeps the requests for a summary.

    Its answer number `full_answer` reports `full_prompt` tokens.
    """

    full_answer: int = 0
    full_prompt: int = 0
    summary_requests: list[Json] = field(default_factory=list)

    def answer(self, request: ModelRequest) -> Reply:
        """Return the next step."""
        if b"summar" in request.body and not has_tools(request.json):
            self.summary_requests.append(request.json)
        self.tokens = self.full_prompt if len(self.requests) == self.full_answer else 9
        return super().answer(request)

    def check(self) -> None:
        """Check that the requests for a summary are recognised."""
        assert self.summary_requests
        assert all(is_compaction(body) for body in self.summary_requests), self.summary_requests

    def check_results(self, count: int) -> None:
        """Check that the requests for a summary have the first `count` results.

        The prompts before them have fewer, because the budget is small.
        """
        text = json.dumps(self.summary_requests)
        assert all(mark in text for mark in hosts.MARKS[:count])
        assert all(len(marks) < count for marks in self.marks_in_requests(hosts.MARKS))


def test_pi_compaction_has_all_results(loopback: Loopback, tmp_path: Path) -> None:
    pi = Pi(User(loopback, tmp_path, "pi"), "newest")
    file = pi.folder / "models.json"
    file.write_text(file.read_text().replace(loopback.model.url, loopback.proxy))
    script = pi.script(*looks(6), Say("Done."), kind=SummaryScript)
    assert isinstance(script, SummaryScript)
    with pi.running() as running:
        running.ask("Look at six hosts.")
        running.compact()
        running.ask("And now?")
    script.check()
    script.check_results(5)
    assert loopback.failures() == {}


def test_hermes_compaction_is_recognised(hermes: WrappedAgent) -> None:
    """Hermes itself leaves old results out of its request."""
    file = configure(hermes, "chat")
    text = file.read_text().replace("default: m,", "default: m, context_length: 64000,")
    compression = "{enabled: true, protect_first_n: 1, protect_last_n: 2, target_ratio: 0.1}"
    file.write_text(text.replace("compression: {enabled: false}", f"compression: {compression}"))
    hosts.lengthen(hermes.work, [500] * 9)
    look_calls: list[Step] = [Call("look", {"host": f"host_{n}_X"}) for n in range(9)]
    script = SummaryScript(
        hermes.loopback.model,
        [*map(with_its_tools, look_calls), Say("All.")],
        full_answer=7,
        full_prompt=60_000,
    )
    process = hermes.run("hermes", *CHAT, "-t", "file,terminal", "-q", "Look at nine hosts.")
    assert process.stdout.strip().endswith("All.")
    script.check()


def test_openclaw_compaction_has_all_results(loopback: Loopback, tmp_path: Path) -> None:
    """The model reports a full window, so OpenClaw compacts before the next question."""
    openclaw = OpenClaw(loopback, tmp_path)
    config = json.loads(openclaw.config.read_text())
    (model,) = config["models"]["providers"]["contextrender"]["models"]
    model |= {"contextWindow": 60_000, "maxTokens": 1_000}
    options = {"enabled": True, "mode": "default", "keepRecentTokens": 200}
    config["agents"]["defaults"]["compaction"] = options | {"memoryFlush": {"enabled": False}}
    openclaw.config.write_text(json.dumps(config))
    look_calls: list[Step] = [Call("look", {"host": f"host_{n}_X"}) for n in range(6)]
    script = SummaryScript(
        loopback.model,
        [*adapt_to_tools(look_calls), Say("All."), Say("Done.")],
        full_answer=6,
        full_prompt=59_000,
    )
    for question, answer in (("Look at six hosts.", "All."), ("And now?", "Done.")):
        report = openclaw.run("--local", "--session-id", "hosts", "-m", question)
        assert [payload["text"] for payload in report["payloads"]] == [answer]
    script.check()
    script.check_results(5)
    assert loopback.failures() == {}
