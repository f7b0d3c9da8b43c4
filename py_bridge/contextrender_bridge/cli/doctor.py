"""Check the set-up of this machine, and say what to do about what is wrong.

Long because each check is here once.
"""

from __future__ import annotations

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
from contextrender_bridge.base.installing import how_to_install, serves
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.settings import (
    config_file,
    current_settings,
    environment_without,
    in_force,
    unfit_as_defaults,
    unknown_variables,
)
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import FILE_NAME, load_credentials
from contextrender_bridge.plugins.hosts import HOSTS
from contextrender_bridge.plugins.hosts.base import dotted
from contextrender_bridge.printing import add_json, print_json
from contextrender_bridge.wrap.agents import AGENTS
from contextrender_bridge.wrap.agents.base import RunRequest
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

PARTS = {
    "server": ("jaclang", "jac-scale", "tiktoken", "wordllama"),
    "proxy": ("uvicorn", "zstandard"),
    "mcp": ("mcp",),
}
"""By the extra that brings them."""

MODELS = ("byllm", "litellm")
"""Needed only where a setting names a model."""

MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `state` is ok, note (works without) or bad; `advice` what to do.

    No check changes anything or asks a model.
    """

    what: str
    told: str
    state: str = "ok"
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender doctor`."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the findings; 1 if one of them stops ContextRender from working."""
    with unfit_as_defaults():
        findings = [
            *python(),
            *versions(),
            *configuration(),
            *data_folder(),
            *models(),
            *network(),
            *service(),
            *agents(),
            *plugins(),
        ]
    bad = any(finding.state == "bad" for finding in findings)
    if args.json:
        print_json({"ok": not bad, "findings": [vars(finding) for finding in findings]})
    else:
        print("\n".join(_line(finding) for finding in findings))
    return 1 if bad else 0


def python() -> Iterator[Finding]:
    """The interpreter, and whether it can serve."""
    told = f"{platform.python_version()} at {sys.executable}"
    advice = "" if serves() else "the client works; the service needs 3.12 or newer"
    yield Finding("python", told, "note" if advice else "ok", advice)


def versions() -> Iterator[Finding]:
    """The distribution and what it stands on."""
    yield Finding("version", f"contextrender {version('contextrender')}")
    versions = {name: _version(name) for name in (*chain(*PARTS.values()), *MODELS)}
    there = [f"{name} {found}" for name, found in versions.items() if found]
    if there:
        yield Finding("parts", ", ".join(there))
    for extra, names in PARTS.items():
        if missing := [name for name in names if not versions[name]]:
            told = f"not installed: {', '.join(missing)}"
            yield Finding("parts", told, "note", how_to_install(extra))


def _version(name: str) -> str:
    """Of an installed distribution; empty where it is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def configuration() -> Iterator[Finding]:
    """The settings in force; the defaults in place of unfit ones."""
    unfit: list[str] = []
    in_force(unfit)
    for state, sentences in (("bad", unfit), ("note", unknown_variables())):
        for told in sentences:
            yield Finding("settings", told, state, "`contextrender config` shows all of them")
    there = config_file()
    yield Finding("settings", str(there) if there.exists() else "environment and defaults")


def data_folder() -> Iterator[Finding]:
    """Where everything is kept."""
    folder = data_dir()
    elsewhere = "name another with CONTEXTRENDER_DATA"
    parent = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    if not parent.is_dir():
        yield Finding("data", f"{parent} is a file", "bad", elsewhere)
    elif not os.access(parent, os.W_OK | os.X_OK):
        yield Finding("data", f"{parent} cannot be written to", "bad", elsewhere)
    elif parent != folder:
        yield Finding("data", f"{folder}, which the first start makes")
    else:
        free = shutil.disk_usage(folder).free / 2**30
        used = sum(file.stat().st_size for file in folder.glob("*") if file.is_file()) / 2**20
        told = f"{folder}: {used:.0f} MB used, {free:.1f} GB free"
        yield Finding("data", told, *(("note", "make room") if free < 1 else ()))


def models() -> Iterator[Finding]:
    """The tokenizer and the embedder, loaded as the service loads them, and the provider."""
    if importlib.util.find_spec("jaclang") is None:
        return
    settings = current_settings()
    yield _tried("tokenizer", _count_tokens)
    if settings.embed_model in ("wordllama", "none"):
        yield _tried("embedder", _embed)
    else:
        yield Finding("embedder", f"{settings.embed_model}, asked over the network")
    yield Finding("model", settings.model or "none: results larger than the budget become excerpts")
    named = settings.model or settings.embed_model not in ("wordllama", "none")
    if named and any(importlib.util.find_spec(name) is None for name in MODELS):
        yield Finding("model", "LiteLLM is not installed", "bad", how_to_install("models"))
    keys = [name for name in KEYS if environment_without().get(name)]
    yield Finding("keys", f"set: {', '.join(keys)}" if keys else "none in the environment")


def network() -> Iterator[Finding]:
    """What keeps connections to providers from working: certificates, network proxies."""
    if importlib.util.find_spec("aiohttp") is None:
        return
    from contextrender_bridge.proxy.surroundings import faults, without_password

    found = [Finding("network", sentence, "bad") for sentence in faults()]
    yield from found
    named = [f"{name}: {without_password(value)}" for name, value in getproxies().items()]
    if not found:
        yield Finding("network", ", ".join(named) or "certificates can be read, no proxy is set")


def service() -> Iterator[Finding]:
    """The running server, and whether the token that clients find is valid."""
    start = "`contextrender serve`; `contextrender wrap` starts one itself"
    try:
        known = load_credentials()
        with ContextRender(known.url, known.token, timeout=10.0, retries=0) as client:
            client.list_sessions(limit=1)
        yield Finding("service", known.url)
    except NoCredentials:
        yield Finding("service", "none has run yet", "note", start)
    except Unreachable:
        yield Finding("service", f"nothing answers at {known.url}", "note", start)
    except Unauthorized:
        told = f"{known.url} does not take the token of {data_dir() / FILE_NAME}"
        yield Finding("service", told, "bad", "restart it over this data folder")
    except ContextRenderError as error:
        yield Finding("service", f"{known.url}: {error.message}", "bad", "see its log")


def agents() -> Iterator[Finding]:
    """Each agent that `wrap` knows: installed or not, and where its model calls go."""
    for name, agent in AGENTS.items():
        program = shutil.which(name)
        if program is None:
            yield Finding(name, "not installed", "note", agent.install)
            continue
        routes = ProviderRoutes.example()
        try:
            agent.redirect(RunRequest((), environment_without(), Path.cwd(), Path()), routes)
        except CommandError as refused:
            yield Finding(name, str(refused), "note")
            continue
        told = f"{program}, its provider: {', '.join(routes.upstreams.values())}"
        yield Finding(name, told, advice=f"contextrender wrap {name}")


def plugins() -> Iterator[Finding]:
    """Return a finding for each agent that can have the plugin and is installed."""
    data = data_dir().absolute()
    for name, host in HOSTS.items():
        installed = host.is_installed(data)
        if shutil.which(name) is None and not installed:
            continue
        label, needed = (
            f"{name} plugin",
            f"needs {host.title} {dotted(host.least_version)} or newer",
        )
        version = host.version()
        if not installed:
            yield Finding(label, f"not installed; {needed}", advice=f"contextrender install {name}")
        elif version and version < host.least_version:
            sentence = f"installed in {host.title} {dotted(version)}, and {needed}"
            yield Finding(label, sentence, "bad", f"update {host.title}")
        elif problem := host.problem():
            yield Finding(label, f"installed, but {problem}", "bad", "switch hooks on")
        else:
            yield Finding(label, f"installed in {host.title} {dotted(version) or '?'}")


def _tried(what: str, load: Callable[[], str]) -> Finding:
    try:
        return Finding(what, load())
    except Exception as failure:
        told = f"cannot be loaded ({type(failure).__name__})"
        return Finding(what, told, "bad", f"install again: {how_to_install('server')}")


def _count_tokens() -> str:
    from contextrender_bridge.engine.text.tokens import counter_for

    return f"o200k_base ({counter_for(None).text('one two three')} tokens in three words)"


def _embed() -> str:
    from contextrender_bridge.engine.models.embeddings import load_embedder

    embedder = load_embedder(current_settings().embed_model)
    if embedder.name != "none":
        embedder.embed(["one"])
    return embedder.name


def _line(finding: Finding) -> str:
    told = f"{MARKS[finding.state]}  {finding.what:<12} {finding.told}"
    return f"{told}\n{'':<19}-> {finding.advice}" if finding.advice else told
