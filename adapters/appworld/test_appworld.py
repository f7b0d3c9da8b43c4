"""AppWorld on a task made for the test: results are omitted from the agent's calls and restored.

The agent is the example's, with the published interface of AppWorld's agents, which are not in its
package. The benchmark's data is not available to tests.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED, CommandResult, run
from adapters.testing.installs import ADAPTERS, python_of
from adapters.testing.scripted import Call, Say, Script, Step

pytestmark = pytest.mark.slow

LOGIN = 'apis.simple_note.login(username="ann@example.com", password="notes-of-ann")'
FIRST = f'token = {LOGIN}["access_token"]\n'
READ = 'print(apis.simple_note.show_note(note_id={}, access_token=token)["content"])'
FIND = 'print(len(apis.simple_note.search_notes(query="{}", access_token=token)))'
COMPLETE = "apis.supervisor.complete_task()"


def test_example_omits_and_restores_results(loopback: Loopback, tmp_path: Path) -> None:
    # One task has one turn, so the answer between two turns is omitted.
    steps = [step for step in hosts.steps() if isinstance(step, Call)]
    texts = [_as_text(step, number) for number, step in enumerate(steps)]
    script = Script(loopback.model, [*texts, _block(COMPLETE)], lambda body: True)
    process = _run(loopback, tmp_path)
    assert f"{len(script.steps)} steps, complete: True" in process.stdout
    assert UNCHANGED not in process.stderr
    hosts.check(replace(script, steps=[*steps, script.steps[-1]]))
    (session,) = loopback.sessions()
    assert session["session"] == "hosts/hosts_1"
    assert session["turns"] == len(script.steps) - 1
    for body in script.requests:
        roles = [message["role"] for message in body["messages"]]
        assert roles == (["system"] + ["user", "assistant"] * len(roles))[: len(roles)]
        assert roles[-1] == "user"


def _as_text(step: Call, number: int) -> Step:
    host = step.arguments["host"]
    if step.name == "restart":
        return _block(FIND.format(host))
    return _block((FIRST if number == 0 else "") + READ.format(int(host.split("_")[1]) + 1))


def _block(code: str) -> Say:
    return Say(f"```python\n{code}\n```")


def _run(loopback: Loopback, folder: Path) -> CommandResult:
    python = python_of("appworld")
    variables = loopback.environment(
        APPWORLD_ROOT=str(folder), APPWORLD_CACHE=str(folder / "cache"), IPYTHONDIR=str(folder)
    )
    if not list(python.parent.parent.glob("lib/*/site-packages/appworld/apps/supervisor")):
        # The package has the apps in an archive.
        run([python.with_name("appworld"), "install"], variables, folder)
    return run([python, ADAPTERS / "appworld" / "example.py"], variables, folder)
