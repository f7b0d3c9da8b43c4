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
CLIENTS = ("proxy", "mcp")
"""Extras that work with the client's Python."""


def how_to_install(extra: str) -> str:
    """Return a command that adds an extra, from the source of the distribution itself."""
    made_by = _installer()
    if made_by in ("uv pip", "pip"):
        return f"`{made_by} install '{_source([extra])}'`"
    # These rebuild the environment with only the packages that are named.
    extras = [*COMPLETE, *([] if extra in COMPLETE else [extra])]
    python = "" if extra in CLIENTS or serves() else " --python 3.12"
    return f"`{made_by} install --force{python} '{_source(extras)}'`"


def how_to_serve() -> str:
    """Return what this environment lacks to run the service, as the end of a sentence."""
    if serves():
        return how_to_install("server")
    version = f"{platform.python_version()} at {sys.executable}"
    return f"Python 3.12 or newer, and this is {version}: {how_to_install('server')}"


def serves() -> bool:
    """Return whether this Python can run the service."""
    return sys.version_info >= SERVER_PYTHON


def _installer() -> str:
    if (Path(sys.prefix) / "uv-receipt.toml").is_file():
        return "uv tool"
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return "pipx"
    return "pip" if importlib.util.find_spec("pip") else "uv pip"


def _source(extras: list[str]) -> str:
    """Return the name for the installer, from the record that it wrote (PEP 610)."""
    marked = f"[{','.join(extras)}]"
    try:
        record = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        record = {}
    url = str(record.get("url") or "")
    if not url:  # it came from an index
        return NAME + marked
    if url.startswith("file:"):
        return unquote(urlsplit(url).path) + marked
    kind = record.get("vcs_info", {}).get("vcs")
    return f"{NAME}{marked} @ {kind}+{url}" if kind else f"{NAME}{marked} @ {url}"
