"""Settings files with byte order marks, encodings and line ends of various editors."""

import codecs
from pathlib import Path

import pytest
from contextrender_bridge.wrap.agents.base import read_json
from contextrender_bridge.wrap.agents.claude import Claude
from contextrender_bridge.wrap.agents.codex import Codex

from tests.wrap.test_agents import NOBODY, User

TEXT = '{"env": {"ANTHROPIC_BASE_URL": "https://gateway.test"}}'


@pytest.fixture
def user(tmp_path: Path) -> User:
    (tmp_path / "work").mkdir()
    return User(tmp_path)


@pytest.mark.parametrize(
    "raw",
    [
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        f"// Mine\r\n{TEXT}\r\n".encode(),
        TEXT.encode().replace(b"}}", b'}, "note": "caf\xe9"}'),
    ],
)
@pytest.mark.parametrize("place", ["", "work/"])
def test_claude_settings_are_read_in_any_encoding(user: User, raw: bytes, place: str) -> None:
    path = user.home / f"{place}.claude/settings.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(raw)
    user.runs(Claude(NOBODY), "-p", "hi")
    assert user.upstreams == ["https://gateway.test/v1"]


def test_codex_configuration_with_byte_order_mark(user: User) -> None:
    path = user.home / ".codex" / "config.toml"
    path.parent.mkdir()
    config_text = 'openai_base_url = "https://own.test/v1"\r\n'
    path.write_bytes(codecs.BOM_UTF8 + config_text.encode())
    user.variables["CODEX_API_KEY"] = "k"
    user.runs(Codex(), "exec", "hi")
    assert user.upstreams == ["https://own.test/v1"]


def test_empty_settings_file_is_read(tmp_path: Path) -> None:
    for raw in (b"", codecs.BOM_UTF8, b"\r\n", codecs.BOM_UTF16_LE):
        (tmp_path / "settings.json").write_bytes(raw)
        assert read_json(tmp_path / "settings.json") == {}
