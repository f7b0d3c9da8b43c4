"""The provider of each agent is found in its environment and configuration."""

import codecs
import json
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.wrap.agents import AGENTS
from contextrender_bridge.wrap.agents.base import Agent, Redirect, RunRequest, parse_json, read_json
from contextrender_bridge.wrap.agents.claude import Claude
from contextrender_bridge.wrap.agents.codex import Codex
from contextrender_bridge.wrap.agents.command import Command
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

ROUTE = "http://127.0.0.1:PORT/w/SECRET/0"
NOBODY = Path("/nowhere/managed-settings.json")


class User:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.variables = {"HOME": str(home)}
        self.routes = ProviderRoutes("http://127.0.0.1:PORT", "SECRET", "tok-123")

    def write(self, name: str, text: object) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))

    def runs(self, agent: Agent, *words: str) -> Redirect:
        request = RunRequest(words, self.variables, self.home / "work", self.home)
        return agent.redirect(request, self.routes)

    @property
    def upstreams(self) -> list[str]:
        return list(self.routes.upstreams.values())


@pytest.fixture
def user(tmp_path: Path) -> User:
    (tmp_path / "work").mkdir()
    return User(tmp_path)


def settings_of(redirect: Redirect) -> dict[str, dict[str, object]]:
    assert redirect.arguments.count("--settings") == 1
    text = redirect.arguments[redirect.arguments.index("--settings") + 1]
    report: dict[str, dict[str, object]] = json.loads(redirect.files.get(Path(text), text))
    return report


def test_claude_keeps_its_provider(user: User) -> None:
    redirect = user.runs(Claude(NOBODY), "-p", "hi")
    assert user.upstreams == ["https://api.anthropic.com/v1"]
    assert settings_of(redirect)["env"] == {"ANTHROPIC_BASE_URL": ROUTE}
    assert redirect.arguments[-2:] == ["-p", "hi"]
    assert redirect.environment["ENABLE_TOOL_SEARCH"] == "true"


@pytest.mark.parametrize("strongest", range(5))
def test_claude_settings_precedence(user: User, strongest: int) -> None:
    def gateway_settings(number: int) -> dict[str, dict[str, str]]:
        return {"env": {"ANTHROPIC_BASE_URL": f"https://gateway{number}.test/a/"}}

    user.variables["ANTHROPIC_BASE_URL"] = "https://gateway4.test/a/"
    for number, name in [
        (3, ".claude/settings.json"),
        (2, "work/.claude/settings.json"),
        (1, "work/.claude/settings.local.json"),
    ]:
        if number >= strongest:
            user.write(name, gateway_settings(number))
    words = ["--settings", json.dumps(gateway_settings(0))] if strongest == 0 else []
    user.runs(Claude(NOBODY), *words)
    assert user.upstreams == [f"https://gateway{strongest}.test/a/v1"]


def test_claude_settings_file_is_merged_and_private(user: User) -> None:
    permissions = {"permissions": {"allow": ["Bash"], "deny": ["Read"]}}
    user.write("work/mine.json", {"env": {"ANTHROPIC_API_KEY": "sk-1"}, **permissions})
    redirect = user.runs(Claude(NOBODY), "--settings=mine.json", "-p", "hi")
    settings = settings_of(redirect)
    assert settings["env"] == {"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": ROUTE}
    assert settings["permissions"] == {
        "allow": ["Bash", "mcp__contextrender__recall"],
        "deny": ["Read"],
    }
    assert "sk-1" not in " ".join(redirect.arguments)
    assert list(redirect.files) == [user.home / "settings.json"]  # only while the run lasts


def test_unsupported_claude_setup_is_refused(user: User) -> None:
    with pytest.raises(CommandError, match="outside this terminal"):
        user.runs(Claude(NOBODY), "--bg", "hi")
    user.write("managed.json", {"env": {"ANTHROPIC_BASE_URL": "https://gateway.test"}})
    with pytest.raises(CommandError, match=r"managed\.json sets"):
        user.runs(Claude(user.home / "managed.json"))
    user.variables["CLAUDE_CODE_USE_BEDROCK"] = "1"
    with pytest.raises(CommandError, match="Amazon Bedrock"):
        user.runs(Claude(NOBODY))


@pytest.mark.parametrize(
    ("name", "words"),
    [("claude", ["mcp", "list"]), ("codex", ["login"]), ("opencode", ["--version"])],
)
def test_command_without_model_calls_is_unchanged(user: User, name: str, words: list[str]) -> None:
    redirect = user.runs(AGENTS[name], *words)
    assert (redirect.arguments, redirect.makes_model_calls) == (words, False)
    assert user.upstreams == []


CODEX = """
model_provider = "gw"
openai_base_url = "https://eu.openai.test/v1"
[model_providers.gw]
base_url = "https://gateway.test/openai"
[profiles.plain]
model_provider = "openai"
"""


@pytest.mark.parametrize(
    ("config", "login", "words", "option", "upstream"),
    [
        ("", {}, [], "openai_base_url", "https://api.openai.com/v1"),
        ("", {"tokens": {"x": 1}}, [], "openai_base_url", "https://chatgpt.com/backend-api/codex"),
        (CODEX, {}, [], "model_providers.gw.base_url", "https://gateway.test/openai"),
        (CODEX, {}, ["-p", "plain"], "openai_base_url", "https://eu.openai.test/v1"),
        (
            CODEX,
            {},
            ["-c", "model_provider=openai"],
            "openai_base_url",
            "https://eu.openai.test/v1",
        ),
    ],
)
def test_codex_keeps_its_provider(
    user: User, config: str, login: object, words: list[str], option: str, upstream: str
) -> None:
    user.variables["CODEX_HOME"] = str(user.home / "elsewhere")
    user.write("elsewhere/config.toml", config)
    user.write("elsewhere/auth.json", login)
    redirect = user.runs(AGENTS["codex"], *words, "exec", "hi")
    assert user.upstreams == [upstream]
    assert redirect.arguments[:2] == ["-c", f'{option}="http://127.0.0.1:PORT/w/0/v1"']
    assert redirect.arguments[-2:] == ["exec", "hi"]
    # Other users can see arguments, so secrets are in the environment.
    assert not [s for s in (user.routes.token, "SECRET") if s in " ".join(redirect.arguments)]
    variable = "OPENAI_PROJECT" if option == "openai_base_url" else "CONTEXTRENDER_WRAP_LINK"
    assert redirect.environment[variable] == "SECRET"


@pytest.mark.parametrize(
    "option", [["-c", "{}"], ["--config", "{}"], ["--config={}"], ["-c{}"], ["-c={}"]]
)
def test_address_in_codex_options_is_redirected(user: User, option: list[str]) -> None:
    words = [word.format('openai_base_url="https://eu.test/v1"') for word in option]
    redirect = user.runs(AGENTS["codex"], *words, "-c", "model=m", "exec", "hi")
    assert user.upstreams == ["https://eu.test/v1"]
    assert "eu.test" not in " ".join(redirect.arguments)
    assert redirect.arguments[-4:] == ["-c", "model=m", "exec", "hi"]


def test_opencode_configuration_is_merged(user: User) -> None:
    user.variables["OPENCODE_CONFIG_CONTENT"] = '{"theme": "mine", "mcp": {"other": {"x": 1}}}'
    user.variables["GATEWAY"] = "https://gateway.test/v1"
    config_text = (
        '{"model": "gw/large", "provider": {"gw": {"options": {"baseURL": "{env:GATEWAY}",},},}}'
    )
    user.write(".config/opencode/opencode.jsonc", f"// mine\n{config_text}")
    redirect = user.runs(AGENTS["opencode"], "run", "hi")
    config = json.loads(redirect.environment["OPENCODE_CONFIG_CONTENT"])
    assert config["theme"] == "mine" and set(config["mcp"]) == {"other", "contextrender"}
    route = config["provider"]["gw"]["options"]["baseURL"].removesuffix("/v1").rpartition("/")[2]
    assert user.routes.upstreams[route] == "https://gateway.test/v1"
    assert redirect.providers == ["https://gateway.test/v1"]
    with pytest.raises(CommandError, match="knows no address"):
        user.runs(AGENTS["opencode"], "run", "-m", "unheard/of", "hi")


def test_opencode_expects_configured_providers(user: User) -> None:
    redirect = user.runs(AGENTS["opencode"], "run", "hi")
    assert redirect.providers == [] and len(user.upstreams) == 3
    redirect = user.runs(AGENTS["opencode"], "run", "-m", "openai/gpt-5.5", "hi")
    assert redirect.providers == ["https://api.openai.com/v1"]


@pytest.mark.parametrize(
    ("name", "value", "upstream", "route"),
    [
        ("OPENAI_BASE_URL", "", "https://api.openai.com/v1", f"{ROUTE}/v1"),
        ("LLM_URL", "https://g.test/x", "https://g.test/x", f"{ROUTE}/v1"),
        ("ANTHROPIC_BASE_URL", "https://g.test/x/", "https://g.test/x/v1", ROUTE),
        ("ANTHROPIC_BASE_URL", "https://g.test/v1", "https://g.test/v1", f"{ROUTE}/v1"),
    ],
)
def test_address_in_variable_is_redirected(
    user: User, name: str, value: str, upstream: str, route: str
) -> None:
    user.variables[name] = value
    assert user.runs(Command("mine", [name]), "x").environment == {name: route}
    assert user.upstreams == [upstream]


def test_contextrender_as_provider_is_refused(user: User) -> None:
    user.variables["OPENAI_BASE_URL"] = "http://127.0.0.1:9/w/abc/0/v1"
    with pytest.raises(CommandError, match="ContextRender already"):
        user.runs(AGENTS["mini"])


def test_json_with_comments_is_parsed() -> None:
    text = '{"a": "// no /* comment", /* one */ "b": [1, 2,], // two\n}'
    assert parse_json(text, "it") == {"a": "// no /* comment", "b": [1, 2]}


def test_openclaw_configuration_is_included(user: User) -> None:
    user.variables["OPENCLAW_STATE_DIR"] = str(user.home / "claw")
    messages = {"baseUrl": "https://claude.test", "api": "anthropic-messages"}
    chat = {"baseUrl": "https://gateway.test/v1", "api": "openai-completions"}
    config: dict[str, Any] = {
        "models": {"providers": {"a": messages, "b": chat, "other": {"baseUrl": "https://x.test"}}},
        "agents": {"defaults": {"model": {"primary": "a/large"}}},
    }
    user.write("claw/openclaw.json", config)
    redirect = user.runs(AGENTS["openclaw"], "agent", "--local", "-m", "hi")
    ((path, text),) = redirect.files.items()
    assert path.parent == user.home / "claw" and not path.exists()
    token = {"CONTEXTRENDER_WRAP_TOKEN": user.routes.token}
    assert redirect.environment == {"OPENCLAW_CONFIG_PATH": str(path), **token}
    report = json.loads(text)
    assert report["$include"] == "./openclaw.json"
    assert report["mcp"]["servers"]["contextrender"]["url"] == user.routes.mcp_url
    assert report["models"]["providers"] == {
        "a": {"baseUrl": ROUTE},
        "b": {"baseUrl": f"{ROUTE[:-1]}1/v1"},
    }
    assert user.upstreams == ["https://claude.test/v1", "https://gateway.test/v1"]
    with pytest.raises(CommandError, match="gateway that runs by itself"):
        user.runs(AGENTS["openclaw"], "agent", "-m", "hi")
    config["agents"] = {"defaults": {"model": "other/large"}}
    user.write("claw/openclaw.json", config)
    with pytest.raises(CommandError, match="other/large"):
        user.runs(AGENTS["openclaw"], "agent", "exec", "hi")


CUSTOM = {"base_url": f"{ROUTE}/v1", "api_mode": "codex_responses", "key_env": "OPENAI_API_KEY"}
ANTHROPIC = ROUTE.replace("/0", "/anthropic")
MESSAGES = {"api_mode": "anthropic_messages"}


def hermes_config(redirect: Redirect) -> dict[str, Any]:
    text = next(text for path, text in redirect.files.items() if path.name == "config.yaml")
    report: dict[str, Any] = json.loads(text)
    return report


@pytest.mark.parametrize(
    ("config", "words", "upstream", "expected"),
    [
        (
            "model: {provider: 'custom:gw'}\nproviders: {gw: {base_url: '${GW}/v1', api_key: k}}",
            [],
            "https://gw.test/v1",
            {"providers": {"gw": {"base_url": f"{ROUTE}/v1", "api_key": "k"}}},
        ),
        (
            "model: {provider: custom, base_url: 'https://api.openai.com/v1'}",
            ["chat", "-q", "hi"],
            "https://api.openai.com/v1",
            {"providers": {"custom": CUSTOM}, "model": {"provider": "custom"}},
        ),
        (
            "custom_providers: [{name: Mine, base_url: 'https://m.test/anthropic'}, {name: b}]",
            ["--provider", "mine"],
            "https://m.test/anthropic/v1",
            {"custom_providers": [{"name": "Mine", "base_url": ROUTE, **MESSAGES}, {"name": "b"}]},
        ),
        (
            "model: {provider: anthropic, default: claude}",
            [],
            "https://api.anthropic.com/v1",
            {"model": {"provider": "anthropic", "base_url": ANTHROPIC, **MESSAGES}},
        ),
    ],
)
def test_hermes_keeps_its_provider(
    user: User, config: str, words: list[str], upstream: str, expected: dict[str, Any]
) -> None:
    user.variables |= {"GW": "https://gw.test"}
    user.write(".hermes/config.yaml", f"{config}\nmcp_servers: {{own: {{url: 'https://m.test'}}}}")
    user.write(".hermes/.env", "OPENAI_API_KEY=sk-1\n")
    redirect = user.runs(AGENTS["hermes"], *words)
    assert user.upstreams == [upstream]
    hermes_settings = hermes_config(redirect)
    recall = hermes_settings.pop("mcp_servers")["contextrender"]
    assert recall["headers"] == {"Authorization": "Bearer ${CONTEXTRENDER_WRAP_TOKEN}"}
    assert hermes_settings.pop("mcp_discovery_timeout") == 15
    assert hermes_settings == expected
    assert redirect.arguments == words
    assert not (user.home / "config.yaml").exists()


@pytest.mark.parametrize(("timeout", "waits"), [(60, 60), (0.5, 15), ("soon", 15)])
def test_hermes_waits_for_the_recall_tool(user: User, timeout: object, waits: float) -> None:
    servers = "mcp_servers: {own: {url: 'https://m.test'}}"
    model = "model: {provider: anthropic}"
    user.write(".hermes/config.yaml", f"{model}\n{servers}\nmcp_discovery_timeout: {timeout}")
    assert hermes_config(user.runs(AGENTS["hermes"]))["mcp_discovery_timeout"] == waits


def test_hermes_managed_folder_profile_and_variables(user: User) -> None:
    user.write("it/config.yaml", "approvals: {mode: manual}")
    user.write("it/.env", "# theirs\nPOLICY=1")
    user.variables["HERMES_MANAGED_DIR"] = str(user.home / "it")
    user.write(".hermes/active_profile", "work")
    user.write(".hermes/profiles/work/config.yaml", "model: {provider: openrouter}")
    with pytest.raises(CommandError, match="OPENROUTER_API_KEY"):
        user.runs(AGENTS["hermes"])
    user.write(".hermes/profiles/work/.env", "export OPENROUTER_API_KEY='sk-1'")
    redirect = user.runs(AGENTS["hermes"])
    assert hermes_config(redirect) == {"approvals": {"mode": "manual"}}
    assert redirect.notes and "no recall tool" in redirect.notes[0]
    variables = next(text for path, text in redirect.files.items() if path.name == ".env")
    assert variables == f"POLICY=1\nOPENROUTER_BASE_URL={ROUTE}/v1\n"
    user.write("else/config.yaml", "model: {provider: nous}")
    user.variables["HERMES_HOME"] = str(user.home / "else")
    with pytest.raises(CommandError, match="no address of Hermes' provider 'nous'"):
        user.runs(AGENTS["hermes"])
    assert not user.runs(AGENTS["hermes"], "sessions", "list").makes_model_calls


TEXT = '{"env": {"ANTHROPIC_BASE_URL": "https://gateway.test"}}'


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
