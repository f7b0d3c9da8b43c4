"""All settings of an operator. No other module reads the environment.

Long because every setting is here.

A setting's value comes from the first of these that sets it: an option of a command, an environment
variable, a line of the configuration file, the default. The file is TOML and uses the names below,
as in `threads = 8`. `CONTEXTRENDER_CONFIG` is its path. Without that variable, the file is
`config.toml` in this user's configuration folder.
"""

import difflib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.setting_kinds import (
    LIVE_BUDGET,
    LIVE_POLICY,
    LOG_FORMATS,
    LOG_LEVELS,
    MODES,
    PRICE_EXAMPLE,
    InvalidSetting,
    as_address,
    as_base_address,
    as_budget,
    as_count,
    as_folder,
    as_list,
    as_names,
    as_patterns,
    as_policy,
    as_price_text,
    as_seconds,
    as_secret,
    as_share,
    as_switch,
    one_of,
)

PREFIX = "CONTEXTRENDER_"
CONFIG = f"{PREFIX}CONFIG"
NOT_SETTINGS = (f"{PREFIX}WRAP_TOKEN",)
"""Variables with the prefix that are not settings."""
OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
DEADLINE = 2.0
"""Seconds a model call may wait for its plan."""


def own_folder(kind: str) -> Path:
    """Return ContextRender's folder for this user. `kind` is "data" or "config"."""
    if sys.platform == "win32":
        parent = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        parent = Path.home() / "Library" / "Application Support"
    else:
        default = {"data": Path(".local", "share"), "config": Path(".config")}[kind]
        parent = Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or Path.home() / default)
    return parent / "contextrender"


def _row(
    default: Any,
    description: str,
    read: Callable[[str], Any] = str,
    *,
    also: str = "",
    secret: bool = False,
) -> Any:
    """Return the dataclass field of a setting.

    - `default`: the setting's default value, or a function that makes it.
    - `description`: a phrase for documents.
    - `read`: the function that parses the value from a text.
    - `also`: another environment variable that sets it.
    - `secret`: the value is never shown.
    """
    row = {"description": description, "read": read, "also": also, "secret": secret}
    if callable(default):
        return field(default_factory=default, metadata=row)
    return field(default=default, metadata=row)


@dataclass(frozen=True)
class Settings:
    """The values of all settings. The environment variable of `url` is `CONTEXTRENDER_URL`."""

    data: Path = _row(lambda: own_folder("data"), "the data folder (also `--data`)", as_folder)
    url: str = _row(
        "", "the service's address, for clients (default: the local server's)", as_address
    )
    token: str = _row("", "the token of clients (default: the local server's)", secret=True)
    model: str = _row(
        "",
        "the LiteLLM model that writes summaries of tool results, and of histories in `eval` "
        "(extra `models`)",
        also="CTXGRAPH_MODEL",
    )
    embed_model: str = _row(
        "wordllama",
        "the model that embeds texts: `wordllama` (works offline), `none`, or a LiteLLM embedding "
        "model such as `text-embedding-3-small` (extra `models`)",
        also="CTXGRAPH_EMBED_MODEL",
    )
    acon_guideline: str = _row(
        "", "file with instructions for the summaries of the baseline `acon`"
    )
    session_cache_mb: int = _row(256, "MB of memory for cached sessions", as_count)
    max_body_mb: int = _row(64, "limit of a request body in MB", as_count)
    max_messages: int = _row(20_000, "limit of messages in one request", as_count)
    min_free_disk_mb: int = _row(
        64, "MB of free disk space that the server needs to be ready", as_count
    )
    workers: int = _row(
        1, "number of processes of `serve` and `proxy` (also `--workers`)", as_count
    )
    threads: int = _row(8, "requests that are processed at the same time", as_count)
    pin_cpu: bool = _row(
        True, "keep the threads of one process on one processor (Linux)", as_switch
    )
    provider_threads: int = _row(
        32, "requests that may wait for a model or embedder at the same time", as_count
    )
    max_connections: int = _row(1024, "limit of open connections", as_count)
    header_timeout: float = _row(15.0, "seconds that a request's headers may take", as_seconds)
    body_timeout: float = _row(300.0, "seconds that a request's body may take", as_seconds)
    database: str = _row(
        "",
        "`postgresql://...` for several processes or machines (default: a file in the data folder)",
        secret=True,
    )
    database_connections: int = _row(8, "limit of connections to PostgreSQL per process", as_count)
    database_connect_timeout: float = _row(
        2.0, "seconds to wait for a connection to PostgreSQL", as_seconds
    )
    database_statement_timeout: float = _row(
        30.0, "seconds to wait for a PostgreSQL statement", as_seconds
    )
    database_lock_timeout: float = _row(
        5.0, "seconds to wait for another write to PostgreSQL", as_seconds
    )
    jwt_secret: str = _row(
        "", "secret that signs tokens (default: created at the first start)", as_secret, secret=True
    )
    token_days: int = _row(30, "days until a new token expires", as_count)
    user_max_calls_per_minute: int | None = _row(
        None, "limit of a user's calls in a minute (default: none)", as_count
    )
    user_max_mb: int | None = _row(
        None, "limit of MB that a user may store (default: none)", as_count
    )
    user_max_sessions: int | None = _row(
        None, "limit of a user's sessions (default: none)", as_count
    )
    retention_days: int | None = _row(
        None, "days without use after which a session is deleted (default: never)", as_count
    )
    retention_sessions: int | None = _row(
        None, "number of most recently used sessions to keep per user (default: all)", as_count
    )
    retention_mb: int | None = _row(
        None, "MB of most recently used sessions to keep per user (default: all)", as_count
    )
    gc_minutes: int = _row(
        60, "minutes between deletions of sessions beyond the retention limits", as_count
    )
    redact: tuple[str, ...] = _row(
        (),
        "rules for secrets that are replaced before messages are stored (extra `redact`): "
        "`keys`, `tokens`, `passwords`, `private_keys`, `emails`, or files with `NAME PATTERN` "
        "lines",
        as_list,
    )
    log_format: str = _row("text", "format of log lines, `text` or `json`", one_of(LOG_FORMATS))
    log_level: str = _row(
        "warning",
        "lowest level to log: `debug`, `info` (each request), `warning` or `error`",
        one_of(LOG_LEVELS),
    )
    otel: bool = _row(
        False,
        "send OpenTelemetry spans, configured by the `OTEL_*` variables (extra `otel`)",
        as_switch,
    )
    prices: str = _row("", f"your own prices, separated by `;`: `{PRICE_EXAMPLE}`", as_price_text)
    debug: bool = _row(False, "allow logs to contain the contents of messages", as_switch)
    upstream: str = _row(OPENAI, "proxy: an OpenAI-compatible provider", as_base_address)
    anthropic_upstream: str = _row(
        ANTHROPIC, "proxy: an Anthropic-compatible provider", as_base_address
    )
    budget: int | str | None = _row(
        None,
        "proxy: limit of tokens of history (default: the session's, then "
        f"`{LIVE_BUDGET}`, which adjusts itself)",
        as_budget,
    )
    policy: str | None = _row(
        None,
        f"proxy: policy that selects results (default: the session's, then `{LIVE_POLICY}`)",
        as_policy,
    )
    mode: str = _row("render", "proxy: `render`, `observe` or `bypass`", one_of(MODES))
    bypass_tools: frozenset[str] = _row(
        frozenset(), "proxy: tools (names, globs) whose results never change", as_patterns
    )
    pin_tools: frozenset[str] = _row(
        frozenset(), "proxy: tools (names, globs) whose results stay while they fit", as_patterns
    )
    holdout: float = _row(
        0.0, "proxy: share of sessions with full history, for comparison (`10%`)", as_share
    )
    provider_timeout: float = _row(
        600.0, "proxy: seconds that a provider may send nothing", as_seconds
    )
    allowed_hosts: frozenset[str] = _row(
        frozenset(),
        "host names (header `Host`) and web origins (`host:port`) that the server accepts in "
        "requests over loopback",
        as_names,
    )
    render_timeout: float = _row(
        DEADLINE, "proxy: seconds that a model call may wait for its plan", as_seconds
    )
    idle_timeout: float = _row(
        600.0, "seconds without use after which a server that `wrap` started stops", as_seconds
    )


@dataclass(frozen=True)
class SettingValue:
    """The value of a setting. `source` is a phrase that names what set it, or "default"."""

    name: str
    value: Any
    source: str
    secret: bool
    description: str


def current_settings() -> Settings:
    """Return this process's settings, which are read once. Raise CommandError if one is invalid."""
    return _read_once()


def read_settings() -> Settings:
    """Read the settings of environment and file now. Raise CommandError if one is invalid."""
    # With a list of faults, invalid settings get their defaults, and no error is raised.
    rows = list_settings(faults=[] if _uses_defaults else None)
    return Settings(**{row.name: row.value for row in rows})


_read_once = cache(read_settings)
forget_settings = _read_once.cache_clear
_uses_defaults = False


@contextmanager
def defaults_for_invalid() -> Iterator[None]:
    """Let `read_settings` use defaults for invalid settings within the block, without an error."""
    global _uses_defaults
    _uses_defaults = True
    forget_settings()
    try:
        yield
    finally:
        _uses_defaults = False
        forget_settings()


def unknown_variables() -> list[str]:
    """Return a sentence for each variable that has the prefix but is not a setting."""
    names = {CONFIG, *NOT_SETTINGS, *(f"{PREFIX}{row.name.upper()}" for row in fields(Settings))}
    messages = []
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in names:
            similar = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
            hint = f": did you mean {similar[0]}?" if similar else ""
            messages.append(f"unknown setting {name}{hint}")
    return messages


def list_settings(faults: list[str] | None = None) -> list[SettingValue]:
    """Return every setting with its source.

    If `faults` is None, raise CommandError for the first invalid setting. Otherwise add a sentence
    on each invalid setting to `faults`, and use its default.
    """

    def add_fault(error: CommandError) -> None:
        """Raise the error, or add its sentence to `faults`."""
        if faults is None:
            raise error
        faults.append(str(error))

    # Read the configuration file. If it cannot be read, nothing of it is used.
    path, defaults = config_file(), Settings()
    file_values: dict[str, str] = {}
    try:
        file_values = _file_values(path)
    except CommandError as error:
        add_fault(error)
    # Parse the text that sets each setting. Without one, the value is the default. A row's metadata
    # has the parser `read`, a further variable `also`, and a description.
    settings = []
    for row in fields(Settings):
        value, source = getattr(defaults, row.name), "default"
        if text_and_source := _text_of(row.name, row.metadata["also"], file_values, path):
            text, source = text_and_source
            try:
                value = parse_setting(row.metadata["read"], text, source)
            except CommandError as error:
                add_fault(error)
                source = f"default, since {source} is unfit"
        description = row.metadata["description"].replace("`", "")
        settings.append(SettingValue(row.name, value, source, row.metadata["secret"], description))
    return settings


_OPTIONS: dict[str, str] = {}


def set_option(name: str, text: str) -> None:
    """Set a setting by a command's option, for this process and for processes forked later."""
    _OPTIONS[name] = text
    forget_settings()


def variables(name: str) -> list[str]:
    """Return the names of a setting's environment variables. The first one that is set is used."""
    also = next(row.metadata["also"] for row in fields(Settings) if row.name == name)
    return [f"CONTEXTRENDER_{name.upper()}", *([also] if also else [])]


def config_file() -> Path:
    """Return the path of the configuration file, which may not exist.

    It is the path in `CONTEXTRENDER_CONFIG`, if that is set.
    """
    path = os.environ.get(CONFIG, "")
    return as_folder(path) if path else own_folder("config") / "config.toml"


def write_setting(name: str, text: str) -> None:
    """Set one setting in the configuration file, or remove it if `text` is empty.

    The file's other lines stay as they are. Raise CommandError if the file cannot be written.
    """
    path = config_file()
    new_lines = [f"{name} = {json.dumps(text)}"] if text else []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines() if path.exists() else []
        other_lines = [line for line in lines if line.partition("=")[0].strip() != name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*new_lines, *other_lines, ""]), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}.") from None


def set_for_library(name: str, value: str) -> None:
    """Set an environment variable for a library, unless it is set already."""
    os.environ.setdefault(name, value)


def can_open_windows() -> bool:
    """Return whether this process can probably open windows, such as a browser's."""
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in variables)


def process_environment() -> dict[str, str]:
    """Return a copy of this process's environment variables."""
    return dict(os.environ)


def _text_of(
    name: str, also: str, file_values: Mapping[str, str], path: Path
) -> tuple[str, str] | None:
    """Return the text that sets a setting, and a phrase that names its source; None if none does.

    Look at a command's option, the environment and the configuration file, in this order. `also` is
    a further environment variable of the setting, empty if it has none. `file_values` were read
    from the configuration file `path`.
    """
    if name in _OPTIONS:
        return _OPTIONS[name], f"--{name.replace('_', '-')}"
    for variable in (f"{PREFIX}{name.upper()}", also):
        if text := os.environ.get(variable, "").strip():
            return text, variable
    if name in file_values:
        return file_values[name], f"{name} in {path}"
    return None


def parse_setting(read: Callable[[str], Any], text: str, source: str) -> Any:
    """Return the value that the parser `read` makes of a text.

    If the text is invalid, raise CommandError with the exit code 2. Its message begins with
    `source`, which names the option, variable or line that the text comes from.
    """
    try:
        return read(text)
    except InvalidSetting as error:
        raise CommandError(f"{source} {error}.", 2) from None


def _file_values(path: Path) -> dict[str, str]:
    """Return the values of the configuration file as texts, by the setting's name.

    Raise CommandError if the file cannot be read, has an unknown setting, or has a value other than
    a text, a number, true or false.
    """
    # The default file may be missing, but not one that `CONTEXTRENDER_CONFIG` names.
    if not path.exists() and not os.environ.get(CONFIG):
        return {}
    try:
        parsed = importlib.import_module("tomllib").loads(path.read_text(encoding="utf-8-sig"))
    except ImportError:
        raise CommandError(f"{path} needs Python 3.11 or newer.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"{path} cannot be read: {reason}.") from None
    # Check the names and types; `parse_setting` checks the values later.
    names = {row.name for row in fields(Settings)}
    for name, value in parsed.items():
        if name not in names:
            raise CommandError(
                f"{path}: there is no setting {name!r}; `contextrender config` lists them."
            )
        if not isinstance(value, (str, int, float, bool)):
            raise CommandError(f"{path}: {name} must be a text, a number, true or false.")
    return {name: str(value) for name, value in parsed.items()}
