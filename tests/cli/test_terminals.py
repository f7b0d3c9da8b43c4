"""Commands on terminals and pipes that are not UTF-8, and in other time zones."""

import subprocess
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from contextrender_bridge.cli import main
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import Credentials

from tests.audit.homes import CLAUDE, claude, write_files
from tests.support.command import printed
from tests.support.transcripts import assistant, step, user

ODD = "Häuser 家 🏠 ‮gnp"


def run(*words: str, encoding: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command on a terminal with this encoding and return its output."""
    out, err = (TextIOWrapper(BytesIO(), encoding=encoding, write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in {"COLUMNS": "80", **variables}.items():
            patch.setenv(name, value)
        try:
            status = main(words)
        except SystemExit as end:
            status = int(end.code or 0)
    streams = [stream.buffer.getvalue() for stream in (out, err)]
    return subprocess.CompletedProcess(words, status, *streams)


@pytest.fixture
def session(credentials: Credentials, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CONTEXTRENDER_URL", credentials.url)
    monkeypatch.setenv("CONTEXTRENDER_TOKEN", credentials.token)
    with ContextRender(credentials.url, credentials.token) as client:
        messages = [user(ODD), *step("a", "look", "{}", f"seen {ODD}"), assistant(ODD)]
        client.fit("oddly", messages[:-1], budget=500)
        client.sync("oddly", messages)
    return "oddly"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp437", "cp1252"])
@pytest.mark.parametrize(
    "words",
    [
        ("sessions",),
        ("sessions", "--json"),
        ("show", "oddly"),
        ("savings",),
        ("search", "seen"),
        ("explain", "oddly"),
        ("misses", "oddly"),
        ("export", "oddly"),
        ("doctor",),
        ("--help",),
        ("wrap", "--help"),
    ],
)
def test_commands_work_with_any_terminal_encoding(
    session: str, words: tuple[str, ...], encoding: str
) -> None:
    process = run(*words, encoding=encoding)
    assert process.returncode == 0, process.stderr
    assert b"Traceback" not in process.stderr
    process.stdout.decode(encoding)


def test_error_with_non_ascii_letters(session: str) -> None:
    process = run("show", ODD, encoding="ascii")
    assert process.returncode == 1 and b"Traceback" not in process.stderr


def test_json_escapes_non_ascii_letters(session: str) -> None:
    assert b"H\\u00e4user" in run("export", "oddly", encoding="latin-1").stdout


def test_days_are_marked_as_utc(session: str) -> None:
    zone = "Etc/GMT-14" if datetime.now(UTC).hour >= 10 else "Etc/GMT+12"
    assert b"day (UTC)" in run("savings", encoding="utf-8", TZ=zone).stdout
    for command in ("savings", "sessions"):
        assert b"UTC" in run(command, "--help", encoding="utf-8").stdout


def test_export_does_not_replace_file(session: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    process = run("export", "oddly", str(tmp_path / "a.json"), encoding="utf-8")
    assert process.returncode == 1 and b"already exists" in process.stderr
    run("export", "oddly", str(tmp_path / "b.json"), encoding="utf-8")
    process = run("import", str(tmp_path / "b.json"), encoding="utf-8")
    assert process.returncode == 1 and b"--as NAME" in process.stderr


@pytest.mark.parametrize("columns", ["0", "wide", "-1"])
def test_invalid_width_of_the_terminal_hides_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    write_files(home, {f"{CLAUDE}/a.jsonl": [claude("m1")]})
    monkeypatch.setenv("COLUMNS", columns)
    assert "claude-opus-4-6" in printed("audit", "--workers", "1")
