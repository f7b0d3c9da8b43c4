"""The data folder and its files are written durably, are private and have valid secrets."""

import os
import stat
from pathlib import Path

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import make_data_private, secret_in, write_private
from contextrender_bridge.server.accounts.callers import Tokens

from tests.support.command import printed


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_file_is_synced_before_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system calls are recorded."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_sync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def note_rename(path: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_rename)
    write_private(tmp_path / "file", "text")
    assert steps == ["file", "rename", "folder"]
    assert (tmp_path / "file").read_text() == "text" and mode(tmp_path / "file") == 0o600


@pytest.mark.parametrize("damaged", ["", "short", "\n" * 31, "é" * 15, "\0" * 64, "01" * 32])
def test_invalid_secret_in_file_is_refused(damaged: str, tmp_path: Path) -> None:
    secret = secret_in(tmp_path / "jwt_secret")
    assert len(secret) >= 32 and secret_in(tmp_path / "jwt_secret") == secret
    (tmp_path / "jwt_secret").write_text(damaged)
    with pytest.raises(CommandError, match=r"jwt_secret cannot be used \(must have at least"):
        Tokens(tmp_path)
    output = printed("user", "list", "--data", tmp_path, status=1)
    assert "delete the file" in output and "Traceback" not in output


def test_open_data_folder_is_made_private(tmp_path: Path) -> None:
    for name, file in (("empty", ""), ("used", "jwt_secret")):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(0o755)
        if file:
            (folder / file).write_text("x" * 32)
        assert make_data_private(folder) == folder
        assert mode(folder) == 0o700


def test_open_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    folder.chmod(0o750)
    (folder / "letter.txt").write_text("")
    output = printed("user", "list", "--data", folder, status=1)
    assert "is open to other users (mode 750)" in output
    assert mode(folder) == 0o750
    folder.chmod(0o700)
    assert make_data_private(folder) == folder
