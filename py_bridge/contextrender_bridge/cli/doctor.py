"""Check the installation on this machine, and print how to mend each problem.

Long because it has all checks.
"""

import argparse
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from urllib.request import getproxies

from contextrender_bridge.base.errors import (
    CommandError,
    ContextRenderError,
    NoCredentials,
    Unauthorized,
    Unreachable,
)
from contextrender_bridge.base.installing import can_serve, how_to_install
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.settings import (
    config_file,
    current_settings,
    defaults_for_invalid,
    list_settings,
    process_environment,
    unknown_variables,
)
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import load_credentials
from contextrender_bridge.plugins.hosts import HOSTS
from contextrender_bridge.plugins.hosts.base import Host, dotted
from contextrender_bridge.printing import add_json, print_json
from contextrender_bridge.wrap.agents import AGENTS
from contextrender_bridge.wrap.agents.base import RunRequest
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

PACKAGES_BY_EXTRA = {
    "server": ("jaclang", "jac-scale", "tiktoken", "wordllama"),
    "proxy": ("uvicorn", "zstandard"),
    "mcp": ("mcp",),
}
"""The packages that each extra installs."""

MODEL_PACKAGES = ("byllm", "litellm")
"""Needed only if a setting names a model."""

STATE_LABELS = {"ok": "ok  ", "note": "note", "bad": "BAD "}
KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
MIN_FREE_GB = 1.0


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. No check changes anything or calls a model.

    `state` is `ok`, `note` (ContextRender works anyway) or `bad`. `advice` says what to do.
    """

    check: str
    message: str
    state: str = "ok"
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender doctor`."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the results of all checks. Return 1 if one of them is `bad`, otherwise 0.

    An invalid setting does not prevent the checks: its default is used instead.
    """
    with defaults_for_invalid():
        findings = [
            *check_python(),
            *check_versions(),
            *check_settings(),
            *check_data_folder(),
            *check_models(),
            *check_network(),
            *check_service(),
            *check_agents(),
            *check_plugins(),
        ]
    has_problem = any(finding.state == "bad" for finding in findings)
    if args.json:
        print_json({"ok": not has_problem, "findings": [vars(finding) for finding in findings]})
    else:
        print("\n".join(_line(finding) for finding in findings))
    return 1 if has_problem else 0


def check_python() -> Iterator[CheckResult]:
    """Check whether this Python can run the service."""
    message = f"{platform.python_version()} at {sys.executable}"
    advice = "" if can_serve() else "the client works; the service needs 3.12 or newer"
    yield CheckResult("python", message, "note" if advice else "ok", advice)


def check_versions() -> Iterator[CheckResult]:
    """Yield the versions of ContextRender and its packages, and a note per incomplete extra."""
    yield CheckResult("version", f"contextrender {version('contextrender')}")
    packages = (*chain(*PACKAGES_BY_EXTRA.values()), *MODEL_PACKAGES)
    versions = {name: _version(name) for name in packages}
    installed = [f"{name} {number}" for name, number in versions.items() if number]
    if installed:
        yield CheckResult("parts", ", ".join(installed))
    for extra, names in PACKAGES_BY_EXTRA.items():
        if missing_names := [name for name in names if not versions[name]]:
            message = f"not installed: {', '.join(missing_names)}"
            yield CheckResult("parts", message, "note", how_to_install(extra))


def _version(name: str) -> str:
    """Return the version of a package; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def check_settings() -> Iterator[CheckResult]:
    """Check that all settings are valid, and that the environment names no unknown setting."""
    problems: list[str] = []
    list_settings(problems)
    advice = "`contextrender config` shows all of them"
    for message in problems:
        yield CheckResult("settings", message, "bad", advice)
    for message in unknown_variables():
        yield CheckResult("settings", message, "note", advice)
    if not problems:
        file = config_file()
        yield CheckResult("settings", str(file) if file.exists() else "environment and defaults")


def check_data_folder() -> Iterator[CheckResult]:
    """Check that the data folder can be created or written to, and that it has free space."""
    folder = data_dir()
    advice = "name another with CONTEXTRENDER_DATA"
    # The first start creates the folder and its missing parents. So check the nearest folder that
    # exists.
    existing = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if not existing.is_dir():
        yield CheckResult("data", f"{existing} is a file", "bad", advice)
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield CheckResult("data", f"{existing} cannot be written to", "bad", advice)
    elif existing != folder:
        yield CheckResult("data", f"{folder}, which the first start makes")
    else:
        yield _check_space(folder)


def _check_space(folder: Path) -> CheckResult:
    """Return a result with the used and the free space of the data folder."""
    free_gb = shutil.disk_usage(folder).free / 2**30
    used_mb = sum(file.stat().st_size for file in folder.glob("*") if file.is_file()) / 2**20
    message = f"{folder}: {used_mb:.0f} MB used, {free_gb:.1f} GB free"
    if free_gb < MIN_FREE_GB:
        return CheckResult("data", message, "note", "make room")
    return CheckResult("data", message)


def check_models() -> Iterator[CheckResult]:
    """Check the tokenizer, the embedder, the model and the keys of providers.

    The tokenizer and a local embedder must load. A model or a remote embedder needs LiteLLM.
    """
    if importlib.util.find_spec("jaclang") is None:  # the server is not installed
        return
    settings = current_settings()
    has_local_embedder = settings.embed_model in ("wordllama", "none")
    yield _check_loading("tokenizer", _describe_tokenizer)
    if has_local_embedder:
        yield _check_loading("embedder", _describe_embedder)
    else:
        yield CheckResult("embedder", f"{settings.embed_model}, asked over the network")

    yield CheckResult(
        "model", settings.model or "none: results larger than the budget become excerpts"
    )
    calls_providers = settings.model or not has_local_embedder
    has_packages = all(importlib.util.find_spec(name) for name in MODEL_PACKAGES)
    if calls_providers and not has_packages:
        yield CheckResult("model", "LiteLLM is not installed", "bad", how_to_install("models"))
    keys = [name for name in KEY_VARIABLES if process_environment().get(name)]
    yield CheckResult("keys", f"set: {', '.join(keys)}" if keys else "none in the environment")


def check_network() -> Iterator[CheckResult]:
    """Check certificates and network proxies, which can prevent connections to providers."""
    if importlib.util.find_spec("aiohttp") is None:  # the check itself needs this package
        return
    from contextrender_bridge.proxy.surroundings import faults, without_password

    problems = [CheckResult("network", sentence, "bad") for sentence in faults()]
    if problems:
        yield from problems
        return
    proxies = [f"{name}: {without_password(value)}" for name, value in getproxies().items()]
    message = ", ".join(proxies) or "certificates can be read, no proxy is set"
    yield CheckResult("network", message)


def check_service() -> Iterator[CheckResult]:
    """Check whether the service answers and accepts the stored token.

    It is no problem if the service has never run or does not run now.
    """
    start = "`contextrender serve`; `contextrender wrap` starts one itself"
    try:
        credentials = load_credentials()
        with ContextRender(credentials.url, timeout=10.0, retries=0) as client:
            client.list_sessions(limit=1)
        yield CheckResult("service", credentials.url)
    except NoCredentials:
        yield CheckResult("service", "none has run yet", "note", start)
    except Unreachable:
        yield CheckResult("service", f"nothing answers at {credentials.url}", "note", start)
    except Unauthorized as error:
        yield CheckResult("service", error.message, "bad")
    except ContextRenderError as error:
        yield CheckResult("service", f"{credentials.url}: {error.message}", "bad", "see its log")


def check_agents() -> Iterator[CheckResult]:
    """Check which of wrap's agents are installed, and whether wrap can redirect them.

    A result names the providers that the agent uses.
    """
    for name, agent in AGENTS.items():
        program = shutil.which(name)
        if program is None:
            yield CheckResult(name, "not installed", "note", agent.install)
            continue
        # Redirect a run without starting it, to find the providers' addresses.
        routes = ProviderRoutes.example()
        request = RunRequest((), process_environment(), Path.cwd(), Path())
        try:
            redirect = agent.redirect(request, routes)
        except CommandError as error:
            yield CheckResult(name, str(error), "note")
            continue
        addresses = redirect.expected_providers(routes)
        message = f"{program}, its provider: {', '.join(addresses) or 'none is configured'}"
        yield CheckResult(name, message, advice=f"contextrender wrap {name}")


def check_plugins() -> Iterator[CheckResult]:
    """Check the plugin of each agent that is installed or has the plugin."""
    data = data_dir().absolute()
    for name, host in HOSTS.items():
        has_plugin = host.is_installed(data)
        if has_plugin or shutil.which(name) is not None:
            yield _check_plugin(name, host, has_plugin=has_plugin)


def _check_plugin(name: str, host: Host, *, has_plugin: bool) -> CheckResult:
    """Return a result on the plugin of one agent, which is called its host.

    The result is bad if the agent is too old for its plugin, or has its hooks switched off.
    """
    check = f"{name} plugin"
    requirement = f"needs {host.title} {dotted(host.least_version)} or newer"
    version = host.version()
    if not has_plugin:
        message, advice = f"not installed; {requirement}", f"contextrender install {name}"
        return CheckResult(check, message, advice=advice)
    if version and version < host.least_version:
        message = f"installed in {host.title} {dotted(version)}, and {requirement}"
        return CheckResult(check, message, "bad", f"update {host.title}")
    if problem := host.problem():
        return CheckResult(check, f"installed, but {problem}", "bad", "switch hooks on")
    return CheckResult(check, f"installed in {host.title} {dotted(version) or '?'}")


def _check_loading(check: str, load: Callable[[], str]) -> CheckResult:
    """Call `load`, which loads something and returns a message. Return a result with the message.

    If it raises an error, the result is bad.
    """
    try:
        return CheckResult(check, load())
    except Exception as failure:
        message = f"cannot be loaded ({type(failure).__name__})"
        return CheckResult(check, message, "bad", f"install again: {how_to_install('server')}")


def _describe_tokenizer() -> str:
    """Load the tokenizer and count a phrase with it, to check that this works.

    Return the encoding's name and the count as text.
    """
    from contextrender_bridge.engine.text.tokens import counter_for

    return f"o200k_base ({counter_for(None).text('one two three')} tokens in three words)"


def _describe_embedder() -> str:
    """Load the embedder and embed a word, to check that this works. Return its name."""
    from contextrender_bridge.engine.models.embeddings import load_embedder

    embedder = load_embedder(current_settings().embed_model)
    if embedder.name != "none":
        embedder.embed(["one"])
    return embedder.name


def _line(finding: CheckResult) -> str:
    """Return a check's result as text, with its advice, if any, in a second line."""
    message = f"{STATE_LABELS[finding.state]}  {finding.check:<12} {finding.message}"
    return f"{message}\n{'':<19}-> {finding.advice}" if finding.advice else message
