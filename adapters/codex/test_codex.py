"""Codex with its own shell tool: results are omitted from its requests and restored."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.base.setting_kinds import AUTO
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback, proxying
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.scripted import Call, Say, Script, ScriptWithWindow, Step, has_tools
from tests.support.scripted_model import ModelRequest, Reply, response_events, stream

CONFIG = Path(__file__).parent / "config.toml"
PROXY = "http://127.0.0.1:8700"
Ask = Callable[..., list[Json]]


class CodeScript(Script):
    """A script whose calls are code for the only tool that newer models have."""

    def answer(self, request: ModelRequest) -> Reply:
        """Return the next step as a call of a custom tool."""
        number = len(self.requests)
        reply = super().answer(request)
        step = self.steps[number] if number < min(len(self.requests), len(self.steps)) else None
        if not isinstance(step, Call):
            return reply
        run = f"await tools.exec_command({json.dumps(step.arguments)})"
        call = {"type": "custom_tool_call", "name": "exec", "input": f"text(({run}).output)"}
        names = {"id": f"item_{number}", "call_id": f"call_{number}", "status": "completed"}
        return stream(response_events([{**call, **names}]), event_lines=True)


def is_agents(body: Json) -> bool:
    """Return whether a request has tools. For newer models they are an item of the input."""
    return has_tools(body) or body["input"][0]["type"] == "additional_tools"


def prepare_agent(proxy: str, folder: Path, model: str) -> Ask:
    """Return a function that runs `codex exec` in its own home and returns the events."""
    modules = node_modules_of("codex")
    home, work = folder / "codex", folder / "work"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CONFIG.read_text().replace(PROXY, proxy))
    hosts.write_files(work)
    variables = environment(OPENAI_API_KEY="sk-none", CODEX_HOME=str(home), HOME=str(folder))

    def ask(*words: str) -> list[Json]:
        command = [str(modules / ".bin" / "codex"), "exec", "--json", "--skip-git-repo-check"]
        command += ["--sandbox", "danger-full-access", "--model", model, *words]
        process = run(command, variables, work)
        return [json.loads(line) for line in process.stdout.splitlines()]

    return ask


@pytest.mark.parametrize(("model", "kind"), [("gpt-5.5", Script), ("gpt-6.1-sol", CodeScript)])
def test_two_turns_of_a_session_are_rendered(
    loopback: Loopback, tmp_path: Path, model: str, kind: type[Script]
) -> None:
    steps = hosts.steps()
    script = kind(loopback.model, [adapt_to_tools(step) for step in steps], is_agents)
    ask = prepare_agent(loopback.proxy, tmp_path, model)
    first = ask("Find out which of the first six hosts are slow.")
    thread = first[0]["thread_id"]
    second = ask("resume", thread, "And of the next three? Restart those that are slow.")
    assert (*answers_in(first), *answers_in(second)) == hosts.ANSWERS
    assert second[0]["thread_id"] == thread
    script.steps = steps
    hosts.check(script)
    (session,) = loopback.sessions()
    assert session["session"] == thread
    hosts.check_turns(session, steps)
    assert session["branches"] == 1
    assert loopback.failures() == {}


def test_agent_continues_past_its_window_without_service(
    loopback: Loopback, tmp_path: Path
) -> None:
    """The agent reads 1.5 times its window's tokens, compacts, and continues without the proxy."""
    looks = [Call("look", {"host": f"host_{number}_X"}) for number in range(9)]
    steps: list[Step] = [*looks, Say("All."), Say("Done."), Say("Alone.")]
    script = ScriptWithWindow(
        loopback.model, [adapt_to_tools(step) for step in steps], is_agents, added_tokens=50_000
    )
    credentials = Credentials("http://127.0.0.1:9", "none")
    with proxying(credentials, f"{loopback.model.url}/v1") as proxy:
        ask = prepare_agent(proxy, tmp_path, "gpt-5.5")
        read = hosts.lengthen(tmp_path / "work", [850] * 9)
        first = ask("Find out which of the nine hosts are slow.")
        resume = ["resume", first[0]["thread_id"]]
        second = ask(*resume, "-c", "model_auto_compact_token_limit=10", "And now?")
    third = prepare_agent(loopback.model.url, tmp_path, "gpt-5.5")(*resume, "Alone?")
    assert (*answers_in(first), *answers_in(second), *answers_in(third)) == (
        "All.",
        "Done.",
        "Alone.",
    )
    assert script.refused_count and read / 4 > 1.5 * script.added_tokens
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:10]):
        assert number in marks  # the newest result is always visible
    bodies = [request.body for request in loopback.model.requests if request.method == "POST"]
    (compacting,) = [body for body in bodies if b"CONTEXT CHECKPOINT COMPACTION" in body]
    assert 0.75 < len(compacting) / 4 / script.window <= 1


def test_newest_result_of_less_than_8000_tokens_is_complete(
    service: Credentials, loopback: Loopback, tmp_path: Path
) -> None:
    """Nine files of 7,000 tokens exceed the automatic budget, but each is complete when read."""
    looks = [adapt_to_tools(Call("look", {"host": f"host_{number}_X"})) for number in range(9)]
    script = Script(loopback.model, [*looks, Say("All.")], is_agents)
    with proxying(service, f"{loopback.model.url}/v1", AUTO, "contextrender_cache_aware") as proxy:
        ask = prepare_agent(proxy, tmp_path, "gpt-5.5")
        hosts.lengthen(tmp_path / "work", [450] * 9)
        assert answers_in(ask("Find out which of the nine hosts are slow.")) == ["All."]
    hosts.check_newest_complete(script, '"function_call_output"', 450)


def adapt_to_tools(step: Step) -> Step:
    """Return the step as a call of Codex's tool."""
    if isinstance(step, Say):
        return step
    host = step.arguments["host"]
    command = f"./restart {host}" if step.name == "restart" else f"cat {host}.txt"
    return Call("exec_command", {"cmd": command})


def answers_in(events: list[Json]) -> list[str]:
    """Return the agent's answers."""
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"]
