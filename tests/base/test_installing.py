"""Install commands in messages match the environment's installer and Python version."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge import embedded
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install, how_to_serve, is_in_cache

from tests.support.command import printed

OLD = (3, 11, 2, "final", 0)
Making = Callable[[str], None]


@pytest.fixture
def made_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Making:
    """Return a function that makes the environment look like one of a tool installer."""

    def make(record: str) -> None:
        (tmp_path / record).write_text("")
        monkeypatch.setattr(sys, "prefix", str(tmp_path))

    return make


@pytest.mark.parametrize(("pip", "command"), [(object(), "pip"), (None, "uv pip")])
def test_install_command_adds_to_environment(
    pip: object, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: pip)
    text = how_to_install("models")
    assert text.startswith(f"`{command} install '") and text.endswith("[models]'`")


@pytest.mark.parametrize(
    ("record", "command"), [("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx")]
)
def test_tool_installer_command_lists_all_extras(
    made_by: Making, record: str, command: str
) -> None:
    made_by(record)
    assert how_to_install("mcp").startswith(f"`{command} install --force '")
    assert how_to_install("mcp").endswith("[server,proxy,mcp]'`")
    assert how_to_install("models").endswith("[server,proxy,mcp,models]'`")


def test_environment_in_a_cache_is_recognized(made_by: Making, tmp_path: Path) -> None:
    made_by("pyvenv.cfg")
    assert not is_in_cache()
    (tmp_path.parent / "CACHEDIR.TAG").touch()
    assert is_in_cache()
    assert how_to_install("eval").startswith("`uv tool install --force '")


def test_old_python_version_is_named(made_by: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    made_by("uv-receipt.toml")
    monkeypatch.setattr(sys, "version_info", OLD)
    monkeypatch.setattr("platform.python_version", lambda: "3.11.2")
    text = how_to_serve()
    assert text.startswith(f"Python 3.12 or newer, and this is 3.11.2 at {sys.executable}: ")
    assert "`uv tool install --force --python 3.12 '" in text
    assert "--python" not in how_to_install("proxy")


def test_missing_server_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    raises = pytest.raises(CommandError, match=r"embedded\(\) needs the server: .*\[server\]")
    with raises, embedded(tmp_path / "data"):
        pass
    output = printed("serve", status=1)
    assert output.startswith(
        "contextrender: `contextrender serve` needs the server: `uv pip install"
    )
