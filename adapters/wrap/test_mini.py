"""mini-swe-agent in `contextrender wrap`, as the agent `mini` and as any other command."""

from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.mini_swe_agent.test_mini_swe_agent import SHORT, as_call, variables
from adapters.testing import hosts
from adapters.testing.installs import python_of
from adapters.testing.scripted import Say, Script
from adapters.wrap.wrapped import WrappedAgent

TASK = ("-m", "openai/m", "-y", "--exit-immediately", "-o", "run.traj.json", "-t", "Look at them.")


@pytest.fixture
def mini(loopback: Loopback, tmp_path: Path) -> WrappedAgent:
    environment_variables = {**variables(tmp_path), "OPENAI_API_KEY": "sk-own"}
    return WrappedAgent(
        loopback, tmp_path, python_of("mini_swe_agent").parent, environment_variables
    )


@pytest.mark.parametrize("way", ["variable", "configured", "command"])
def test_task_is_rendered(mini: WrappedAgent, way: str) -> None:
    steps = [step for step in hosts.steps() if step != Say(hosts.ANSWERS[0])]
    script = Script(mini.loopback.model, [as_call(step) for step in steps])
    url = f"{mini.loopback.model.url}/v1"
    words = ["-c", "mini.yaml", "-c", SHORT, *TASK]
    options: list[str] = []
    if way == "configured":
        words += ["-c", f"model.model_kwargs.api_base={url}"]
    else:
        mini.variables["OPENAI_BASE_URL"] = url
    if way == "command":
        options = ["--base-url-env", "OPENAI_BASE_URL"]
        mini.run("--", "mini", *words, options=options)
    else:
        mini.run("mini", *words)
    script.steps = steps
    hosts.check(script)
    assert mini.report["calls"] == len(steps)
    assert mini.report["tokens_omitted"] > 0
    requests = [request for request in mini.loopback.model.requests if request.method == "POST"]
    assert {request.header("authorization") for request in requests} == {"Bearer sk-own"}
    mini.check_left_nothing()
