"""How to install a missing part with the installer that made this environment."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "contextrender"
SERVER_PYTHON = (3, 12)
COMPLETE = ("server", "proxy", "mcp")
"""The extras that the documents install."""
CLIENTS = ("proxy", "mcp")
"""Extras that work with each Python that the client works with."""


def how_to_install(extra: str) -> str:
    """Return a command that adds an extra, from the source of the distribution itself."""
    installer = _installer()
    if installer in ("uv pip", "pip"):
        return f"`{installer} install '{_requirement([extra])}'`"
    # uv tool and pipx rebuild the environment with only the extras that are named.
    extras = list(dict.fromkeys([*COMPLETE, extra]))
    python = "" if extra in CLIENTS or can_serve() else " --python 3.12"
    return f"`{installer} install --force{python} '{_requirement(extras)}'`"


def how_to_serve() -> str:
    """Return what this environment lacks to run the service, as the end of a sentence."""
    if can_serve():
        return how_to_install("server")
    version = f"{platform.python_version()} at {sys.executable}"
    return f"Python 3.12 or newer, and this is {version}: {how_to_install('server')}"


def can_serve() -> bool:
    """Return whether this Python can run the service."""
    return sys.version_info >= SERVER_PYTHON


def _installer() -> str:
    """Return the command that made this environment, by the record that it left there."""
    if (Path(sys.prefix) / "uv-receipt.toml").is_file():
        return "uv tool"
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return "pipx"
    return "pip" if importlib.util.find_spec("pip") else "uv pip"


def _requirement(extras: list[str]) -> str:
    """Return this distribution with other extras, from the source that PEP 610's file names."""
    extras_suffix = f"[{','.join(extras)}]"
    try:
        record = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        record = {}
    url = str(record.get("url") or "")
    if not url:  # it came from an index
        return NAME + extras_suffix
    if url.startswith("file:"):
        return unquote(urlsplit(url).path) + extras_suffix
    version_control = record.get("vcs_info", {}).get("vcs")
    source = f"{version_control}+{url}" if version_control else url
    return f"{NAME}{extras_suffix} @ {source}"
