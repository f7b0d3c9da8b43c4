"""Hermes Agent itself, with its own tools: results leave its calls and come back."""

import json
import re
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from contextrender_bridge.audit.hermes import read_hermes

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.scripted import Call, Script, Step
from adapters.wrap.wrapped import check_recorded

FOLDER = ADAPTERS / "hermes"
QUIET = """
model:
  default: m
  provider: custom:local
providers:
  local:
    base_url: {url}
    api_key: sk-none
    api_mode: {api}
memory:
  nudge_interval: 0
skills:
  creation_nudge_interval: 0
security:
  tirith_enabled: false
  allow_lazy_installs: false
"""
"""The model, no reviews of its own work (model calls with tools), and nothing downloaded."""


def with_its_tools(step: Step) -> Step:
    """The step of the hosts' task, as Hermes' tools do it."""
    if not isinstance(step, Call):
        return step
    host = step.arguments["host"]
    if step.name == "look":
        return Call("read_file", {"path": f"{host}.txt"})
    return Call("terminal", {"command": f"touch {host}"})


def make_home(folder: Path, url: str, api: str) -> Path:
    """A home for Hermes with the plugin and the configuration of this folder."""
    home = folder / "home" / ".hermes"
    shutil.copytree(FOLDER / "contextrender", home / "plugins" / "contextrender")
    # The hosts' task is about what leaves and comes back: the paper's policy.
    own = (FOLDER / "config.yaml").read_text()
    own = own.replace("budget: 600", "budget: 600\n      policy: contextrender")
    config = own + QUIET.format(url=url, api=api)
    (home / "config.yaml").write_text(config)
    checked = {"ts": time.time(), "behind": 0, "rev": None, "ver": "0.19.0"}
    (home / ".update_check").write_text(json.dumps(checked))
    return home


def ask(task: str, loopback: Loopback, home: Path, *more: str) -> tuple[str, str]:
    """What Hermes answers to a task, and the session's id."""
    work = home.parent.parent / "work"
    hermes = python_of("hermes").parent / "hermes"
    command = [str(hermes), "chat", "-Q", "-t", "file,terminal", "--yolo", *more, "-q", task]
    variables = loopback.environment(HOME=str(home.parent), HERMES_HOME=str(home))
    done = run(command, variables, work)
    found = re.search(r"^session_id: (\S+)$", done.stderr, re.MULTILINE)
    assert found, done.stderr
    return done.stdout.strip(), found[1]


def kept(home: Path) -> int:
    """How many findings Hermes' own session has, complete."""
    with closing(sqlite3.connect(home / "state.db")) as store:
        results = store.execute("SELECT content FROM messages WHERE role = 'tool'").fetchall()
    return sum(any(f"{mark}." in text for mark in hosts.MARKS) for (text,) in results)


@pytest.mark.parametrize("api", ["chat_completions", "codex_responses", "anthropic_messages"])
def test_a_continued_session(api: str, loopback: Loopback, tmp_path: Path) -> None:
    hosts.write_files(tmp_path / "work")
    home = make_home(tmp_path, f"{loopback.model.url}/v1", api)
    script = Script(loopback.model, [with_its_tools(step) for step in hosts.steps()])
    answer, name = ask("Read the first six hosts' files.", loopback, home)
    assert answer.endswith(hosts.ANSWERS[0])
    answer, again = ask("And of the next three?", loopback, home, "--resume", name)
    assert answer.endswith(hosts.ANSWERS[1])
    assert again == name
    hosts.check(replace(script, steps=hosts.steps()))
    (session,) = loopback.sessions()
    assert session["session"] == name
    assert session["turns"] == len(script.steps) - 1
    assert session["branches"] == 1
    assert kept(home) == len(hosts.MARKS)
    check_recorded(read_hermes, home)
    assert UNCHANGED not in (home / "logs" / "agent.log").read_text()
