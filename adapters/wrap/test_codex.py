"""Codex in `contextrender wrap`."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.audit.codex import read_codex

from adapters.codex.test_codex import CodeScript, adapt_to_tools, answers_in, is_agents
from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Say, Script
from adapters.wrap.wrapped import WrappedAgent, check_recorded
from tests.support.scripted_model import ModelRequest, Reply

USER_PROVIDER = """
model_provider = "mine"
[model_providers.mine]
name = "Mine"
base_url = "{url}/v1"
env_key = "MY_KEY"
wire_api = "responses"
http_headers = {{ "x-mine" = "yes" }}
"""
BUILT_IN = 'openai_base_url = "{url}/v1"\n'
NAMESPACES = {
    "recall": "mcp__contextrender",
    "spawn_agent": "multi_agent_v1",
    "wait_agent": "multi_agent_v1",
}
"""The namespaces of Codex's tools that a model has to search for."""
EXEC = ("exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access")


class NamespaceScript(Script):
    """A script whose model calls tools with a namespace, as newer models do after a tool search."""

    def answer(self, request: ModelRequest) -> Reply:
        """Return the reply with the tool's name and namespace."""
        reply = super().answer(request)
        for name, namespace in NAMESPACES.items():
            tool = f'"name" : "{name}"'.encode()
            full_name = tool + f', "namespace" : "{namespace}"'.encode()
            reply.chunks = [chunk.replace(tool, full_name) for chunk in reply.chunks]
        return reply


@pytest.fixture
def codex(loopback: Loopback, tmp_path: Path) -> WrappedAgent:
    (tmp_path / "codex").mkdir()
    variables = {"CODEX_HOME": str(tmp_path / "codex"), "MY_KEY": "sk-own"}
    variables["CODEX_API_KEY"] = "sk-built-in"
    return WrappedAgent(loopback, tmp_path, node_modules_of("codex") / ".bin", variables)


@pytest.mark.parametrize(
    ("config", "key", "model", "kind"),
    [
        (USER_PROVIDER, "sk-own", "gpt-5.5", Script),
        (BUILT_IN, "sk-built-in", "gpt-5.5", Script),
        (BUILT_IN, "sk-built-in", "gpt-6.1-sol", CodeScript),
    ],
)
def test_continued_session_is_rendered(
    codex: WrappedAgent, config: str, key: str, model: str, kind: type[Script]
) -> None:
    file = codex.folder / "codex" / "config.toml"
    file.write_text(config.format(url=codex.loopback.model.url))
    before = file.read_bytes()
    steps = hosts.steps()
    script = kind(codex.loopback.model, [adapt_to_tools(step) for step in steps], is_agents)

    def ask(*words: str) -> list[dict[str, object]]:
        process = codex.run("codex", *EXEC, "--model", model, *words)
        return [json.loads(line) for line in process.stdout.splitlines()]

    first = ask("Find out which of the first six hosts are slow.")
    second = ask("resume", str(first[0]["thread_id"]), "And of the next three?")
    assert (*answers_in(first), *answers_in(second)) == hosts.ANSWERS
    script.steps = steps
    hosts.check(script)
    assert codex.report["tokens_omitted"] > 0
    requests = [request for request in codex.loopback.model.requests if request.method == "POST"]
    assert {request.header("authorization") for request in requests} == {f"Bearer {key}"}
    if config == USER_PROVIDER:
        assert {request.header("x-mine") for request in requests} == {"yes"}
    assert file.read_bytes() == before
    codex.check_left_nothing()
    check_recorded(read_codex, codex.folder / "codex")


def test_recall_tool_works(codex: WrappedAgent) -> None:
    (codex.folder / "codex" / "config.toml").write_text(
        USER_PROVIDER.format(url=codex.loopback.model.url)
    )
    look = adapt_to_tools(Call("look", {"host": "host_0_X"}))
    recall = Call("recall", {"query": "host_1_X"})
    script = NamespaceScript(codex.loopback.model, [look, recall, Say("Done.")], is_agents)
    process = codex.run("codex", *EXEC, "--model", "gpt-5.5", "Look.")
    assert answers_in([json.loads(line) for line in process.stdout.splitlines()]) == ["Done."]
    assert hosts.MARKS[0] in json.dumps(script.requests[2]["input"][-1])
