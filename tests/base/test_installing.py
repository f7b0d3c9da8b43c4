"""Install commands in messages match the environment's installer and Python version."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge import embedded
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import (
    how_to_install,
    how_to_serve,
    how_to_uninstall,
    is_in_cache,
)

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


@pytest.mark.parametrize("is_usual_folder", [False, True])
@pytest.mark.parametrize(
    ("record", "command", "folder", "variable"),
    [
        ("uv-receipt.toml", "uv tool", ".local/share/uv/tools", "UV_TOOL_DIR"),
        ("pipx_metadata.json", "pipx", ".local/share/pipx/venvs", "PIPX_HOME"),
    ],
)
def test_tool_installer_commands_have_extras_and_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record: str,
    command: str,
    folder: str,
    variable: str,
    is_usual_folder: bool,
) -> None:
    home = tmp_path if is_usual_folder else tmp_path / "other"
    monkeypatch.setattr(Path, "home", lambda: home)
    environment = tmp_path / folder / "contextrender"
    environment.mkdir(parents=True)
    (environment / record).touch()
    monkeypatch.setattr(sys, "prefix", str(environment))
    if not is_usual_folder:
        command = f"{variable}={tmp_path / folder.removesuffix('/venvs')} {command}"
    assert how_to_install("mcp").startswith(f"`{command} install --force '")
    assert how_to_install("mcp").endswith("[server,proxy,mcp]'`")
    assert how_to_install("models").endswith("[server,proxy,mcp,models]'`")
    assert how_to_uninstall() == f"{command} uninstall contextrender"


@pytest.mark.parametrize("pip", [object(), None])
def test_removal_works_without_pip(pip: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: pip)
    uv = f"uv pip uninstall --python {sys.executable} contextrender"
    assert how_to_uninstall() == (f"{sys.executable} -m pip uninstall contextrender" if pip else uv)


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
    assert "uv tool install --force --python 3.12 '" in text
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
