"""Warnings go to a file while an agent uses the terminal."""

import logging
import warnings
from pathlib import Path

import pytest
from contextrender_bridge.wrap import warnings_log
from contextrender_bridge.wrap.warnings_log import warnings_in_file


def test_next_log_file_is_private_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings_log, "LOG_BYTES", 200)
    with warnings_in_file(tmp_path / "wrap.log"):
        for _ in range(4):
            logging.getLogger("contextrender").warning("a sentence of a hundred bytes" * 3)
    files = list(tmp_path.glob("wrap.log*"))
    assert len(files) == 2
    assert not any(file.stat().st_mode & 0o077 for file in files)


def test_warnings_go_to_a_private_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(), warnings_in_file(tmp_path / "wrap.log") as log:
        warnings.simplefilter("default")
        logging.getLogger("contextrender").warning("a call's usage is not noted")
        logging.getLogger("asyncio").error("broken off")
        warnings.warn("an odd thing", UserWarning, stacklevel=1)
    assert log.warnings == 3
    text = (tmp_path / "wrap.log").read_text()
    assert "not noted" in text and "broken off" in text and "an odd thing" in text
    assert (tmp_path / "wrap.log").stat().st_mode & 0o077 == 0
    assert capfd.readouterr() == ("", "")
