"""Numbers and settings files that are unusual but valid."""

import codecs
from pathlib import Path

import pytest
from contextrender_bridge.base.setting_kinds import (
    AUTO,
    InvalidSetting,
    as_budget,
    as_count,
    budget_of,
)
from contextrender_bridge.base.settings import current_settings

from tests.base.test_settings import Configure, configure

__all__ = ["configure"]


@pytest.mark.parametrize("text", ["6000", " 6000 ", "6_000", "6,000", "6000.0", "06000", "6000."])
def test_budget_in_every_form(text: str) -> None:
    assert as_budget(text) == as_count(text) == 6000


@pytest.mark.parametrize(
    "text", ["", "6k", "6,00", "6000.5", "-6000", "1e3", "٦٠٠٠", "60_00", "9" * 10, "9" * 5000]
)
def test_other_texts_are_no_budget(text: str) -> None:
    assert budget_of(text) is None
    with pytest.raises(InvalidSetting):
        as_count(text)


@pytest.mark.parametrize("text", ["auto", "AUTO", " Auto "])
def test_automatic_budget(text: str) -> None:
    assert budget_of(text) == AUTO


@pytest.mark.parametrize(
    "raw",
    [
        codecs.BOM_UTF8 + b"threads = 12\n",
        b"# mine\r\nthreads = 1_2\r\n",
        b"threads = 12.0",
        b'threads = " 12"\n',
    ],
)
def test_settings_file_in_every_form(configure: Configure, raw: bytes) -> None:
    path: Path = configure("")
    path.write_bytes(raw)
    assert current_settings().threads == 12
