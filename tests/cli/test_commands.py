"""Commands: typing mistakes, help, completion and uninstall."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge.base import installing
from contextrender_bridge.cli import SUBCOMMANDS, uninstall
from contextrender_bridge.cli.inspect import common
from contextrender_bridge.client.credentials import Credentials

from tests.cli.test_doctor import machine
from tests.support.command import contextrender, printed
from tests.support.scripted_model import Model, Reply, serving

__all__ = ["machine"]


@pytest.mark.parametrize(
    ("word", "suggestion"), [("sesions", "sessions"), ("serv", "serve"), ("audits", "audit")]
)
def test_mistyped_command_gets_suggestion(word: str, suggestion: str) -> None:
    assert printed(word, status=2) == (
        f"contextrender: there is no command {word!r}; did you mean `contextrender {suggestion}`?\n"
    )


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [(("--verison",), "--version"), (("sessions", "--limt", "3"), "--limit")],
)
def test_mistyped_option_gets_suggestion(words: tuple[str, ...], suggestion: str) -> None:
    assert printed(*words, status=2).endswith(f"; did you mean {suggestion}?\n")


def test_unknown_command_names_help() -> None:
    assert "`contextrender --help` lists them." in contextrender("xyzzy").stderr


def test_help_is_a_command() -> None:
    assert printed("help") == printed("--help")
    assert printed("help", "audit") == printed("audit", "--help")
    assert all(f"  {name} " in printed("help") for name in SUBCOMMANDS)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("claude", "--budget", "3000"), "wrap --budget 3000 claude"),
        (("codex", "exec", "--policy=prune"), "wrap --policy=prune codex"),
        (("opencode", "--observe", "run"), "wrap --observe opencode"),
    ],
)
def test_wrap_option_after_agent_is_explained(words: tuple[str, ...], option: str) -> None:
    assert f"`contextrender {option}`" in printed("wrap", *words, status=2)


def test_agent_options_after_double_dash_are_kept() -> None:
    process = contextrender("wrap", "claude", "-p", "--", "--budget")
    assert "is an option of wrap" not in process.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_valid(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(printed("completion", shell))
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, str(script)], check=shell == "bash")
    assert "sessions" in script.read_text() and "claude" in script.read_text()


def test_bash_completes_commands_and_agents(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(
        printed("completion", "bash")
        + '\nCOMP_WORDS=(contextrender se); COMP_CWORD=1; _contextrender; echo "${COMPREPLY[@]}"'
        + '\nCOMP_WORDS=(contextrender wrap co); COMP_CWORD=2; _contextrender; echo "${COMPREPLY}"'
    )
    process = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=True)
    assert process.stdout == "serve sessions search\ncodex\n"


@pytest.mark.parametrize("words", [("sessions",), ("console", "--print")])
@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"ok": true}'])
def test_server_of_another_program_is_named(
    words: tuple[str, ...], body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    model.answer = lambda _: Reply([body])
    with serving(model, lifespan="off") as address:
        monkeypatch.setenv("CONTEXTRENDER_URL", address)
        monkeypatch.setenv("CONTEXTRENDER_TOKEN", "token")
        sentence = printed(*words, status=1)
    error = f"The answer of {address} (HTTP 200) is not ContextRender's. Is it the right address?"
    assert sentence == f"contextrender: {error}\n"


def test_server_that_never_answers_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("CONTEXTRENDER_URL", address)
        monkeypatch.setenv("CONTEXTRENDER_TOKEN", "token")
        sentence = f"No answer from {address}: timed out. Correct CONTEXTRENDER_URL, or unset it."
        assert printed("sessions", status=1) == f"contextrender: {sentence}\n"


@pytest.mark.parametrize("address", ["ftp://x", "127.0.0.1:8000", "http://x:99999", "http://[x"])
def test_invalid_address_is_quoted(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTRENDER_URL", address)
    sentence = f"contextrender: CONTEXTRENDER_URL is {address!r}: "
    assert printed("sessions", status=2).startswith(sentence)


@pytest.mark.parametrize(
    "words",
    [
        ("wrap", "--budget", "x", "claude"),
        ("audit", "--limit", "-1"),
        ("open", "--limit", "0"),
        ("sessions", "--limit", "0"),
        ("open", "--limit", "x"),
        ("serve", "--port", "x"),
        ("search", "text", "--limit", "0"),
        ("serve", "--workers", "0"),
    ],
)
def test_invalid_option_ends_with_status_2(words: tuple[str, ...]) -> None:
    error = printed(*words, status=2)
    assert next(word for word in words if word.startswith("--")) in error.splitlines()[-1]
    assert "positive_count" not in error and "int" not in error.split()


@pytest.mark.parametrize(
    "words", [("check",), ("gc",), ("backup", "copy"), ("jac", "dot", "s"), ("jac", "run", "f.jac")]
)
def test_mistyped_data_folder_is_named_and_not_created(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "mistyped"
    error = printed(*words, "--data", folder, status=1)
    assert error == f"contextrender: there is no store in {folder}.\n"
    assert not folder.exists()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_store_that_is_no_regular_file_is_named(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "store.db")
    error = printed("user", "list", "--data", tmp_path, status=1)
    sentence = f"{tmp_path / 'store.db'} is no regular file, so it cannot be the store."
    assert error == f"contextrender: {sentence}\n"


def test_uninstall_lists_and_removes_files(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = machine / "data"
    monkeypatch.setenv("CONTEXTRENDER_DATA", str(data))
    assert "Nothing is left" in printed("uninstall", "--dry-run")
    data.mkdir()
    (data / "sessions.db").write_text("x")
    (machine / "config.toml").write_text("")
    monkeypatch.setenv("CONTEXTRENDER_CONFIG", str(machine / "config.toml"))
    output = printed("uninstall", "--dry-run")
    assert f"{data}  data folder" in output and f"{machine / 'config.toml'}  settings" in output
    assert "uninstall contextrender" in output
    with monkeypatch.context() as patch:
        running = Credentials("http://127.0.0.1:1", "token")
        patch.setattr(uninstall, "stored_credentials", lambda _: running)
        patch.setattr(uninstall, "is_service_running", lambda _: True)
        assert "stops about 10 minutes after its last use" in printed("uninstall", status=1)
    with monkeypatch.context() as patch:
        (machine / "jac").mkdir()
        patch.setenv("XDG_CACHE_HOME", str(machine))
        assert f"{machine / 'jac'}  Jac's cache" in printed("uninstall", "--dry-run")
        patch.setattr(installing, "is_in_cache", lambda: True)
        assert "`uv cache clean`" in printed("uninstall", "--dry-run")
    assert "confirm with --yes" in printed("uninstall", status=1)
    assert (data / "sessions.db").exists()
    printed("uninstall", "--yes")
    assert not data.exists() and not (machine / "config.toml").exists()
