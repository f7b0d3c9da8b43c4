"""Settings: the source and forms of each value, refused values, and a list in the documents."""

import codecs
import re
import subprocess
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from contextrender_bridge.base import setting_kinds
from contextrender_bridge.base.errors import CommandError, InvalidRequest
from contextrender_bridge.base.setting_kinds import (
    AUTO,
    InvalidSetting,
    as_budget,
    as_count,
    budget_of,
)
from contextrender_bridge.base.settings import (
    Settings,
    current_settings,
    list_settings,
    variables,
    write_setting,
)
from contextrender_bridge.engine.models.providers import check_model
from contextrender_bridge.engine.parameters import check_budget
from contextrender_bridge.engine.policies import POLICIES

from tests.support.command import printed

ROOT = Path(__file__).resolve().parents[2]
ROWS = {row.name: row for row in fields(Settings)}
PROXY = [name for name, row in ROWS.items() if row.metadata["description"].startswith("proxy")]

Configure = Callable[[str], Path]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    for name in ROWS:
        for variable in variables(name):
            monkeypatch.delenv(variable, raising=False)

    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text)
        monkeypatch.setenv("CONTEXTRENDER_CONFIG", str(path))
        return path

    return write


def test_environment_overrides_file_overrides_default(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configure('threads = 8\nmodel = "in/file"\npin_cpu = false\n')
    monkeypatch.setenv("CTXGRAPH_MODEL", "in/environment")
    values = {row.name: (row.value, row.source) for row in list_settings()}
    assert values["model"] == ("in/environment", "CTXGRAPH_MODEL")
    assert values["threads"] == (8, f"threads in {path}")
    assert values["pin_cpu"] == (False, f"pin_cpu in {path}")
    assert values["max_body_mb"] == (64, "default")
    monkeypatch.setenv("CONTEXTRENDER_MODEL", "own/name")
    assert current_settings().model == "own/name"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("threds = 8", "there is no setting 'threds'"),
        ("threads = 0", "threads in .* must be a whole number above 0"),
        ("threads = [8]", "threads must be a text, a number, true or false"),
        ('mode = "loud"', "mode in .* must be one of render, observe, bypass"),
        ("threads = ", "cannot be read"),
    ],
)
def test_invalid_settings_file_is_refused(configure: Configure, text: str, sentence: str) -> None:
    configure(text)
    with pytest.raises(CommandError, match=sentence):
        list_settings()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_setting_is_changed_in_a_file_with_byte_order_mark(configure: Configure, end: str) -> None:
    path = configure("")
    path.write_bytes(codecs.BOM_UTF8 + f"budget = 700{end}model = 'm'{end}".encode())
    write_setting("budget", "900")
    assert (current_settings().budget, current_settings().model) == (900, "m")
    write_setting("model", "")
    assert (current_settings().budget, current_settings().model) == (900, Settings().model)


def test_configured_settings_file_must_exist(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_CONFIG", str(tmp_path / "nowhere.toml"))
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        list_settings()


def test_config_command_shows_settings_without_secrets(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configure("session_cache_mb = 99")
    monkeypatch.setenv("CONTEXTRENDER_TOKEN", "hunter2")
    output = printed("config")
    assert re.search(rf"^session_cache_mb +99 +session_cache_mb in {path}$", output, re.M)
    assert re.search(r"^token +\(set\) +CONTEXTRENDER_TOKEN$", output, re.M)
    assert re.search(r"^redact +- +default$", output, re.M)
    assert "hunter2" not in output
    assert re.search(
        r"^budget .*\n    proxy: limit of tokens .*auto, which\s+adjusts\s+itself", output, re.M
    )
    assert all(re.search(rf"^{name} ", output, re.M) for name in ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_documents_list_every_setting(name: str) -> None:
    row, page = ROWS[name], "docs/settings.md"
    listed = ", ".join(f"`{variable}`" for variable in variables(name))
    lines = (ROOT / page).read_text().replace("\n  ", " ").splitlines()
    matching_lines = [line for line in lines if line.startswith((f"- {listed} ", f"- {listed}: "))]
    assert len(matching_lines) == 1, f"{page} needs one line that begins with - {listed}"
    if isinstance(row.default, frozenset):
        assert ", ".join(row.default) in matching_lines[0]
    elif row.default not in (MISSING, "", None, False, ()):
        default_text = "on" if row.default is True else str(row.default).removesuffix(".0")
        assert default_text in matching_lines[0]
    if name not in PROXY:
        assert matching_lines[0].endswith(f": {row.metadata['description']}")


def test_only_settings_read_the_environment() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "engine", "evaluation", "graph", "py_bridge", "walkers", "nodes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    reading = re.compile(r"\bos\.(environ|getenv)\b|from os import .*\b(environ|getenv)\b")
    sources = [path for path in listed if path.endswith((".py", ".jac"))]
    readers = {path for path in sources if reading.search((ROOT / path).read_text())}
    package = "py_bridge/contextrender_bridge"
    assert readers == {
        f"{package}/base/settings.py",
        # Three read the variables of other programs, which are not settings of ContextRender.
        f"{package}/proxy/surroundings.py",
        f"{package}/cli/uninstall.py",
        f"{package}/plugins/hosts/base.py",
        # Two pass the environment to a process that they start.
        f"{package}/plugins/start.py",
        f"{package}/cli/jac.py",
    }


def test_settings_list_the_engines_policies() -> None:
    assert set(POLICIES) == set(setting_kinds.POLICIES)
    with pytest.raises(InvalidRequest):
        check_budget(setting_kinds.SMALLEST_BUDGET - 1)
    assert check_budget(setting_kinds.SMALLEST_BUDGET) == setting_kinds.SMALLEST_BUDGET


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["proxy", "--policy", "nope"], "--policy must be one of contextrender, "),
        (
            ["proxy", "--budget", "5"],
            "--budget must be auto, or a whole number of tokens, at least",
        ),
        (["proxy", "--budget", "9" * 5000], "--budget must be auto, or a whole number of tokens"),
    ],
)
def test_invalid_option_stops_start(options: list[str], sentence: str) -> None:
    assert sentence in printed(*options, status=2)


@pytest.mark.slow
def test_unknown_embedder_stops_start() -> None:
    check_model("CONTEXTRENDER_EMBED_MODEL", "text-embedding-3-small")
    with pytest.raises(CommandError, match="CONTEXTRENDER_EMBED_MODEL 'nope' is no model"):
        check_model("CONTEXTRENDER_EMBED_MODEL", "nope")


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
