"""`contextrender install` and `uninstall`: what they change, and that they can be repeated."""

import json
import tomllib
from pathlib import Path

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.plugins.hosts.codex import with_block, without_block
from hypothesis import given
from hypothesis import strategies as st

from tests.support.command import contextrender

VERSIONS = {"claude": "2.1.332", "pi": "1.6.0", "opencode": "1.18.33", "codex": "0.171.0"}
CLAUDE = """#!/bin/sh
# A double of Claude Code's own plugin commands.
settings="$HOME/.claude/settings.json"
case "$*" in
  --version) echo "{version} (Claude Code)" ;;
  *"marketplace add"*) mkdir -p "$HOME/.claude" ;;
  *"plugin install"*)
    echo '{"enabledPlugins": {"contextrender@contextrender": true}}' > "$settings" ;;
  *"plugin uninstall"*) [ -f "$settings" ] && echo '{}' > "$settings" ;;
esac
"""


class Machine:
    """A home with the agents' programs, and the commands run there."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.data = folder / "data"
        for path in (self.home, self.bin):
            path.mkdir()
        for name in VERSIONS:
            self.have(name, VERSIONS[name])

    def have(self, name: str, version: str) -> None:
        text = CLAUDE if name == "claude" else "#!/bin/sh\necho '{version}'\n"
        program = self.bin / name
        program.write_text(text.replace("{version}", version))
        program.chmod(0o755)

    def run(self, *words: str, status: int = 0) -> str:
        paths = {"HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin"}
        environment = {**paths, "CONTEXTRENDER_DATA": str(self.data)}
        process = contextrender(*words, environment=environment)
        assert process.returncode == status, process.stdout + process.stderr
        return process.stdout + process.stderr

    def files(self) -> dict[str, bytes]:
        folders = (self.home, self.data / "plugins")
        paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in paths}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("name", VERSIONS)
def test_dry_run_lists_changes_and_uninstall_undoes_them(machine: Machine, name: str) -> None:
    before = machine.files()
    plan = machine.run("install", name, "--dry-run")
    assert machine.files() == before
    assert machine.run("install", name).startswith(plan)
    files_with_plugin = machine.files()
    assert any("contextrender" in text.decode() for text in files_with_plugin.values())
    machine.run("install", name)
    assert machine.files() == files_with_plugin
    assert f"{name} plugin" in machine.run("doctor", status=machine_status(machine))
    assert f"contextrender uninstall {name}" in machine.run("uninstall", "--dry-run")
    machine.run("uninstall", name, "--dry-run")
    assert machine.files() == files_with_plugin
    machine.run("uninstall", name)
    remaining_files = {
        path: text for path, text in machine.files().items() if text.strip() != b"{}"
    }
    assert remaining_files == before
    assert "Nothing has to be changed." in machine.run("uninstall", name)


def machine_status(machine: Machine) -> int:
    """Return the exit status of `doctor`, which also fails if this home lacks other things."""
    environment = {"HOME": str(machine.home), "PATH": f"{machine.bin}:/usr/bin:/bin"}
    environment["CONTEXTRENDER_DATA"] = str(machine.data)
    return contextrender("doctor", environment=environment).returncode


@pytest.mark.parametrize("name", VERSIONS)
def test_old_or_missing_agent_is_refused(machine: Machine, name: str) -> None:
    machine.have(name, "0.0.9")
    assert "0.0.9 is too old" in machine.run("install", name, status=1)
    (machine.bin / name).unlink()
    assert f"{name} is not installed" in machine.run("install", name, status=1)
    assert machine.files() == {}


def test_invalid_options_are_refused(machine: Machine) -> None:
    assert "none for emacs" in machine.run("install", "emacs", status=2)
    assert "no render" in machine.run("install", "codex", "--mode", "render", status=1)
    assert "no after-summary" in machine.run("install", "pi", "--mode", "after-summary", status=1)
    assert "--tokens must be from" in machine.run("install", "pi", "--tokens", "9", status=2)
    machine.have("claude", "2.1.328")
    assert "needs 2.1.329" in machine.run("install", "claude", "--mode", "render", status=1)


def test_doctor_names_disabled_hooks(machine: Machine) -> None:
    machine.run("install", "claude")
    settings = machine.home / ".claude" / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "disableAllHooks": True}))
    assert "switches hooks off" in machine.run("doctor", status=1)


def test_plugin_files_have_no_token(machine: Machine) -> None:
    machine.data.mkdir()
    secret = {"url": "http://127.0.0.1:9", "token": "sesame-1234"}
    (machine.data / "credentials.json").write_text(json.dumps(secret))
    for name in VERSIONS:
        machine.run("install", name)
    assert not any(b"sesame" in text for text in machine.files().values())


SETTINGS = '[mcp_servers.contextrender]\ncommand = "x"\n'


@given(
    st.lists(
        st.sampled_from(['model = "m"', "# mine", "", "[features]\nhooks = true", "[[a]]\nb = 1"]),
        unique=True,
    )
)
def test_codex_configuration_of_user_is_kept(lines: list[str]) -> None:
    text = "\n".join(sorted(lines, key=lambda line: line.startswith("["))) + "\n"
    config = with_block(text, SETTINGS)
    assert tomllib.loads(config) == {**tomllib.loads(text), **tomllib.loads(SETTINGS)}
    assert with_block(config, SETTINGS) == config
    assert without_block(config).strip() == text.strip()


TRUST = """[hooks.state]

[hooks.state."/home/u/.codex/config.toml:session_start:0:0"]
trusted_hash = "sha256:1"

[hooks.state."/home/u/.codex/config.toml:stop:0:0"]
trusted_hash = "sha256:2"

"""
HOOKS = "".join(
    f'[[hooks.{e}]]\n[[hooks.{e}.hooks]]\ntype = "command"\n\n' for e in ("SessionStart", "Stop")
)
PROJECT = '[projects."/home/u/work"]\ntrust_level = "trusted"\n'


@pytest.mark.parametrize("user_config", ["", "# mine\n[tui]\ntheme = 'dark'\n"])
def test_codex_entries_in_plugin_block_are_kept(user_config: str) -> None:
    """Codex keeps a comment at the end of the file there, and writes new tables before it."""
    config = with_block(user_config, HOOKS + SETTINGS)
    trusted_config = config.replace("[mcp_servers", f"{TRUST}[mcp_servers")
    used_config = trusted_config.replace("# <<<", f"\n{PROJECT}# <<<")
    assert used_config.count("[projects") == used_config.count("[hooks.state]") == 1
    assert (
        with_block(used_config, HOOKS + SETTINGS) == used_config
    )  # the user is not asked to trust again
    assert tomllib.loads(without_block(used_config)) == tomllib.loads(user_config + PROJECT)
    assert without_block(used_config).startswith(user_config)


def test_trust_in_users_hooks_is_kept() -> None:
    other_trust = TRUST.replace(":0:0", ":1:0") + TRUST.partition("\n\n")[2]
    used_config = with_block(HOOKS, HOOKS + SETTINGS).replace(
        "[mcp_servers", f"{other_trust}[mcp_servers"
    )
    assert tomllib.loads(without_block(used_config)) == tomllib.loads(HOOKS + TRUST)


def test_configuration_with_equal_server_name_is_refused() -> None:
    with pytest.raises(CommandError, match="cannot be extended"):
        with_block('[mcp_servers.contextrender]\nurl = "mine"\n', SETTINGS)
