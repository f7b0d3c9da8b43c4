"""Claude Code with its own tools: results are omitted from its requests and restored."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.base.setting_kinds import AUTO
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback, proxying
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.scripted import Call, Say, Script, ScriptWithWindow, Step
from tests.support.scripted_model import ModelRequest, Reply

SETTINGS = Path(__file__).parent / "settings.json"
Ask = Callable[..., dict[str, str]]


def prepare_agent(proxy: str, folder: Path, model: str, headers: str = "") -> Ask:
    """Return a function that runs `claude -p` in its own home and returns the answer."""
    modules = node_modules_of("claude_code")
    # npm may skip install scripts, so run it here.
    run(["node", modules / "@anthropic-ai/claude-code/install.cjs"], environment())
    work = folder / "work"
    hosts.write_files(work)
    settings = json.loads(SETTINGS.read_text())
    settings["env"]["ANTHROPIC_BASE_URL"] = proxy
    variables = environment(
        ANTHROPIC_API_KEY="sk-none",
        ANTHROPIC_CUSTOM_HEADERS=headers,
        CLAUDE_CONFIG_DIR=str(folder / "config"),
        HOME=str(folder),
    )

    def ask(question: str, *options: str) -> dict[str, str]:
        command = [str(modules / ".bin" / "claude"), "-p", question, *options]
        command += ["--output-format", "json", "--settings", json.dumps(settings)]
        command += ["--model", model, "--allowedTools", "Read,Bash"]
        process = run(command, variables, work)
        answer: dict[str, str] = json.loads(process.stdout)
        return answer

    return ask


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-1"])
def test_two_turns_of_a_session_are_rendered(
    loopback: Loopback, tmp_path: Path, model: str
) -> None:
    steps = hosts.steps()
    script = Script(loopback.model, [adapt_to_tools(step, tmp_path / "work") for step in steps])
    ask = prepare_agent(loopback.proxy, tmp_path, model)
    first = ask("Find out which of the first six hosts are slow.")
    resume = ["--resume", first["session_id"]]
    second = ask("And of the next three? Restart those that are slow.", *resume)
    assert (first["result"], second["result"]) == hosts.ANSWERS
    assert second["session_id"] == first["session_id"]
    script.steps = steps
    hosts.check(script)
    for body in script.requests:
        # System messages are kept, at positions that the API accepts.
        assert "# Environment" in json.dumps(body["messages"])
        roles = "".join(message["role"][0] for message in body["messages"])
        assert not re.search("^s|as|su", roles)
    (session,) = loopback.sessions()
    assert session["session"] == first["session_id"]
    hosts.check_turns(session, steps)
    assert session["branches"] == 1
    assert loopback.failures() == {}


def test_session_continues_after_compaction(
    service: Credentials, loopback: Loopback, tmp_path: Path
) -> None:
    """With the cache-aware policy, all results are in the compaction request and can be recalled
    later."""
    looks = [Call("look", {"host": f"host_{number}_X"}) for number in range(9)]
    summary = Say("<summary>Summary: six were looked at.</summary>")
    # After a compaction, Claude Code reads the last five files again.
    adapted_steps: list[Step] = [*looks[:6], Say("Six."), summary, *looks[6:], Say("All.")]
    script = Script(
        loopback.model, [adapt_to_tools(step, tmp_path / "work") for step in adapted_steps]
    )
    with proxying(service, f"{loopback.model.url}/v1", policy="contextrender_cache_aware") as proxy:
        ask = prepare_agent(proxy, tmp_path, "claude-opus-5-5")
        first = ask("Find out which of the first six hosts are slow.")
        resume = ["--resume", first["session_id"]]
        ask("/compact", *resume)
        assert ask("And the next three?", *resume)["result"] == "All."
        assert httpx.get(f"{proxy}/contextrender/status").json()["fail_open"] == {}
    assert len(script.requests) == len(adapted_steps)
    for body in script.requests:
        check_form(body)
    for step, marks in zip(adapted_steps, script.marks_in_requests(hosts.MARKS)[1:], strict=False):
        assert (
            step not in looks or looks.index(step) in marks
        )  # the newest result is always visible
    before, compaction, after = script.requests[6:9]
    assert count_results(before) < count_results(compaction) == 6
    assert count_results(after) == 0
    assert json.dumps(after["messages"]).count("Summary: six were looked at.") == 1
    (session,) = loopback.sessions()
    assert session["branches"] == 2
    reply = loopback.client.recall(session["session"], query="host_1_X")
    assert "host_1_X" in json.dumps(reply["results"])


def test_agent_continues_past_its_window_without_service(
    loopback: Loopback, tmp_path: Path
) -> None:
    """The agent reads 1.5 times its window's tokens, compacts, and continues without the proxy."""
    looks = [Call("look", {"host": f"host_{number}_X"}) for number in range(9)]
    summary = Say("<summary>Summary: nine were looked at.</summary>")
    steps: list[Step] = [*looks, Say("All."), summary, Say("Done.")]
    adapted_steps = [adapt_to_tools(step, tmp_path / "work") for step in steps]
    script = ScriptWithWindow(loopback.model, adapted_steps, added_tokens=50_000)
    credentials = Credentials("http://127.0.0.1:9", "none")
    with proxying(credentials, f"{loopback.model.url}/v1") as proxy:
        ask = prepare_agent(proxy, tmp_path, "claude-opus-5-5")
        # After the compaction, Claude Code reads the last five files again.
        read = hosts.lengthen(tmp_path / "work", [1_500] * 4 + [500] * 5)
        first = ask("Find out which of the nine hosts are slow.")
        assert first["result"] == "All."
        resume = ["--resume", first["session_id"]]
        ask("/compact", *resume)
    alone = prepare_agent(loopback.model.url, tmp_path, "claude-opus-5-5")
    assert alone("And now?", *resume)["result"] == "Done."
    assert script.refused_count and read / 4 > 1.5 * script.added_tokens
    for body in script.requests:
        check_form(body)
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:10]):
        assert number in marks  # the newest result is always visible
    assert count_results(script.requests[10]) >= 1


def test_newest_result_of_less_than_8000_tokens_is_complete(
    service: Credentials, loopback: Loopback, tmp_path: Path
) -> None:
    """Nine files of 7,000 tokens exceed the automatic budget, but each is complete when read."""
    looks = [Call("look", {"host": f"host_{number}_X"}) for number in range(9)]
    steps: list[Step] = [*(adapt_to_tools(look, tmp_path / "work") for look in looks), Say("All.")]
    script = Script(loopback.model, steps)
    with proxying(service, f"{loopback.model.url}/v1", AUTO, "contextrender_cache_aware") as proxy:
        ask = prepare_agent(proxy, tmp_path, "claude-opus-5-5")
        hosts.lengthen(tmp_path / "work", [450] * 9)
        assert ask("Find out which of the nine hosts are slow.")["result"] == "All."
    hosts.check_newest_complete(script, '"tool_result"', 450)


FILES, HOSTS_WITH_PORT = range(9), range(7)


def needed_line(host: int) -> tuple[int, str]:
    """Return the number (from 1) and the value of the line that the agent needs from a file."""
    line = (host * 79 + 300) % 700 + 1
    return line, f"V{crc32(repr((host, line)).encode())}"


@dataclass
class Reader(Script):
    """A model that needs one line of each file and reads it again only if the line is omitted."""

    steps: list[Step] = field(default_factory=list)
    folder: Path = Path()
    host: int = 0
    cut: int = 0
    repeat_count: int = 0

    def write(self) -> None:
        """Write files of about 8,000 tokens; the last ones do not contain the task's words."""
        for host in FILES:
            values = [f"V{crc32(repr((host, line)).encode())}" for line in range(1, 701)]
            rows = [f"option_{host}_{number} = {value}" for number, value in enumerate(values)]
            line, value = needed_line(host)
            if host in HOSTS_WITH_PORT:
                rows[line - 1] = f"port = {value}"
            (self.folder / f"host_{host}_X.txt").write_text("\n".join(rows))

    def answer(self, request: ModelRequest) -> Reply:
        """Reply with a call that reads the next file or the rest of this one, or with the final
        answer."""
        if self.is_agent(request.json):
            self.steps.append(self._step(json.dumps(request.json["messages"], ensure_ascii=False)))
        return super().answer(request)

    def _step(self, prompt: str) -> Step:
        line, value = needed_line(self.host)
        newest = prompt.rpartition('"tool_result"')[2]
        self.cut += "(read on with offset" in newest
        if self.steps and value not in newest:
            self.repeat_count += 1
            return self._read(offset=line - 5, limit=10)
        self.host += bool(self.steps)
        return self._read() if self.host in FILES else Say("All.")

    def _read(self, **fields: int) -> Call:
        return Call("Read", {"file_path": str(self.folder / f"host_{self.host}_X.txt"), **fields})


def test_agent_reads_again_only_omitted_lines(
    service: Credentials, loopback: Loopback, tmp_path: Path
) -> None:
    """The policy cannot predict which line is needed, so it omits the line.

    The agent reads it again, and the prompt then has it.
    """
    reader = Reader(loopback.model, folder=tmp_path / "work")
    with proxying(service, f"{loopback.model.url}/v1", AUTO, "contextrender_cache_aware") as proxy:
        ask = prepare_agent(proxy, tmp_path, "claude-opus-5-5")
        reader.write()
        assert ask("Which port has each of the nine hosts?")["result"] == "All."
        assert httpx.get(f"{proxy}/contextrender/status").json()["fail_open"] == {}
    assert 1 <= reader.repeat_count <= reader.cut / 3
    assert len(reader.steps) == len(FILES) + reader.repeat_count + 1


def check_form(body: Json) -> None:
    """Check that each call has a result and that there are at most four cache breakpoints."""
    parts = list(objects_in([body.get("system"), body.get("tools"), body["messages"]]))
    assert 1 <= sum("cache_control" in part for part in parts) <= 4
    calls = [part["id"] for part in parts if part.get("type") == "tool_use"]
    results = [part["tool_use_id"] for part in parts if part.get("type") == "tool_result"]
    assert sorted(set(calls)) == sorted(calls) == sorted(results)


def count_results(body: Json) -> int:
    return sum(part.get("type") == "tool_result" for part in objects_in(body["messages"]))


def objects_in(value: Any) -> Iterator[Json]:
    """Yield every object in a JSON value, at any depth."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from objects_in(inner)


def adapt_to_tools(step: Step, folder: Path) -> Step:
    """Return the step as a call of Claude Code's tools."""
    if isinstance(step, Say):
        return step
    host = step.arguments["host"]
    if step.name == "restart":
        return Call("Bash", {"command": f"./restart {host}"})
    return Call("Read", {"file_path": str(folder / f"{host}.txt")})
