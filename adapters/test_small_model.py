"""End to end: a real agent, the proxy, the service and a real model with a small context.

The full history exceeds the model's context. Through the proxy, every call fits.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.conftest import Loopback, proxying
from adapters.testing.commands import CommandResult, run
from adapters.testing.hosts import BUDGET
from adapters.testing.installs import CACHE, environment, python_of
from tests.support.small_model import NotInstalled, install, serve_model

pytestmark = pytest.mark.slow

CONTEXT = 2048
STEPS = 12
POLICY = "contextrender_excerpts"
AGENT = Path(__file__).parent / "testing" / "small_agent.py"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    folder = CACHE / "small-model"
    if not folder.is_dir():
        try:
            install(folder)
        except NotInstalled as reason:
            pytest.skip(f"SmolLM2 cannot be installed: {reason}")
    with serve_model(folder, CONTEXT) as url:
        yield url


@pytest.fixture
def files(tmp_path: Path) -> Path:
    filler = "All is well here and nothing else is to be told. " * 18
    for number in range(10):
        finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n{filler}"
        (tmp_path / f"host_{number}_X.txt").write_text(finding)
    return tmp_path


def agent(url: str, files: Path, *, fails: bool = False) -> CommandResult:
    command = [python_of("mini_swe_agent"), AGENT, url, str(STEPS), files]
    return run(command, environment(), fails=fails, seconds=300)


def test_full_history_exceeds_context(model: str, files: Path) -> None:
    process = agent(model, files, fails=True)
    assert "ContextWindowExceededError" in process.stderr


def test_agent_continues_within_budget(loopback: Loopback, model: str, files: Path) -> None:
    # This policy always shows the newest result or an excerpt of it.
    with proxying(loopback.service, model, policy=POLICY) as proxy:
        process = agent(f"{proxy}/s/small/v1", files)
    assert f"LimitsExceeded after {STEPS} calls" in process.stdout
    (session,) = loopback.sessions()
    assert session["session"] == "small"
    assert session["results"] == STEPS - 1
    assert session["tokens"] > CONTEXT
    reply = loopback.client.explain("small", turn=STEPS, budget=BUDGET, policy=POLICY)
    assert reply["tokens_before"] > CONTEXT > BUDGET >= reply["tokens_after"]
    displays = [result["display"] for result in reply["results"]]
    assert {"complete", "omitted"} <= set(displays)
