"""opencode itself, wrapped."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from contextrender_bridge.audit.opencode import read_opencode

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Say, Script, Step
from adapters.wrap.wrapped import Json, Wrapped, check_recorded


@pytest.fixture
def folder() -> Iterator[Path]:
    """One whose name is as long wherever this runs: every call has it, so it decides what fits."""
    with TemporaryDirectory(prefix="contextrender-wrap-opencode-", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def opencode(loopback: Loopback, folder: Path) -> Wrapped:
    """With a project of the user's that has a provider of its own."""
    program = node_modules_of("opencode/runtime") / "opencode-linux-x64" / "bin"
    variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    wrapped = Wrapped(loopback, folder, program, {**variables, "MODEL_URL": loopback.model.url})
    variables = wrapped.variables
    for place in ("DATA", "CONFIG", "CACHE", "STATE"):
        variables[f"XDG_{place}_HOME"] = str(wrapped.home / place.lower())
    variables["PWD"] = str(wrapped.work)
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "{env:MODEL_URL}/v1", "apiKey": "sk-own"},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    config = {
        "model": "local/scripted",
        "small_model": "local/scripted",
        "permission": {"*": "allow"},
        "provider": {"local": local},
    }
    (wrapped.work / "opencode.json").write_text(f"// mine\n{json.dumps(config)}")
    return wrapped


def test_a_continued_session(opencode: Wrapped) -> None:
    file = opencode.work / "opencode.json"
    before = file.read_bytes()
    known = hosts.steps()
    script = Script(opencode.loopback.model, [as_its_own(step, opencode.work) for step in known])
    first = ask(opencode, "Find out which of the first six are slow.")
    second = ask(opencode, "And the next three?", "-s", first[0]["sessionID"])
    assert said(first) + said(second) == list(hosts.ANSWERS)
    script.steps = known
    hosts.check(script)
    assert opencode.report["tokens_kept_away"] > 0
    asked = [one for one in opencode.loopback.model.asked if one.method == "POST"]
    assert {one.header("authorization") for one in asked} == {"Bearer sk-own"}
    names = {session["session"] for session in opencode.loopback.sessions()}
    assert names == {first[0]["sessionID"]}
    assert file.read_bytes() == before
    opencode.check_left_nothing()
    check_recorded(read_opencode, opencode.home / "data" / "opencode")


def test_it_recalls(opencode: Wrapped) -> None:
    look = as_its_own(Call("look", {"host": "host_0_X"}), opencode.work)
    recall = Call("contextrender_recall", {"query": "host_1_X"})
    script = Script(opencode.loopback.model, [look, recall, Say("Done.")])
    assert said(ask(opencode, "Look.")) == ["Done."]
    assert hosts.MARKS[0] in json.dumps(script.asked[2]["messages"][-1])


def ask(opencode: Wrapped, *words: str) -> list[Json]:
    """The events of `opencode run`."""
    done = opencode.run("opencode", "run", "--format", "json", *words)
    return [json.loads(line) for line in done.stdout.splitlines()]


def said(events: list[Json]) -> list[str]:
    return [event["part"]["text"] for event in events if event["type"] == "text"]


def as_its_own(step: Step, folder: Path) -> Step:
    """The step with opencode's tools."""
    if not isinstance(step, Call):
        return step
    host = step.arguments["host"]
    if step.name == "restart":
        return Call("bash", {"command": f"./restart {host}", "description": "Restart it"})
    return Call("read", {"filePath": str(folder / f"{host}.txt")})
