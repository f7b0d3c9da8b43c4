"""Commands of this environment's installer: to install a missing part, to remove the program."""

import importlib.util
import json
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "contextrender"
SERVER_PYTHON = (3, 12)
COMPLETE = ("server", "proxy", "mcp")
"""The extras that the documentation installs."""
CLIENTS = ("proxy", "mcp")
"""Extras that support every Python version that the client supports."""


def how_to_install(extra: str) -> str:
    """Return a command, in backticks, that adds an extra to this installation.

    It installs from the source that this distribution was installed from.
    """
    installer = _installer()
    if installer in ("uv pip", "pip"):
        return f"`{installer} install '{_requirement([extra])}'`"
    # uv tool and pipx rebuild the environment with only the extras that are named.
    extras = list(dict.fromkeys([*COMPLETE, extra]))
    python = "" if extra in CLIENTS or can_serve() else " --python 3.12"
    return f"`{installer} install --force{python} '{_requirement(extras)}'`"


def how_to_serve() -> str:
    """Return what this environment needs to run the service: the end of a sentence after "needs".

    It is a command, or the needed Python version with a command.
    """
    if can_serve():
        return how_to_install("server")
    version = f"{platform.python_version()} at {sys.executable}"
    return f"Python 3.12 or newer, and this is {version}: {how_to_install('server')}"


def how_to_uninstall() -> str:
    """Return the command that removes this installation."""
    if is_in_cache():
        return "nothing is installed, because uvx runs it from uv's cache (`uv cache clean`)"
    installer = _installer()
    if installer == "pip":
        return f"{shlex.quote(sys.executable)} -m pip uninstall {NAME}"
    python = f" --python {shlex.quote(sys.executable)}" if installer == "uv pip" else ""
    return f"{installer} uninstall{python} {NAME}"


def can_serve() -> bool:
    """Return whether this Python can run the service."""
    return sys.version_info >= SERVER_PYTHON


def is_in_cache() -> bool:
    """Return whether this environment is in a cache, as that of uvx is."""
    return any((folder / "CACHEDIR.TAG").is_file() for folder in Path(sys.prefix).parents)


def _installer() -> str:
    """Return the installer of this environment, recognized by the files that it leaves there.

    If the environment is not in the installer's usual folder, a variable names the folder.
    """
    folder = Path(sys.prefix)
    if is_in_cache():
        return "uv tool"
    if (folder / "uv-receipt.toml").is_file():
        return _assignment("UV_TOOL_DIR", folder.parent, "uv/tools") + "uv tool"
    if (folder / "pipx_metadata.json").is_file():
        return _assignment("PIPX_HOME", folder.parent.parent, "pipx") + "pipx"
    return "pip" if importlib.util.find_spec("pip") else "uv pip"


def _assignment(variable: str, folder: Path, usual_name: str) -> str:
    """Return the shell's assignment of an installer's folder; empty if it is the usual one."""
    is_usual = folder == Path.home() / ".local" / "share" / usual_name
    return "" if is_usual else f"{variable}={shlex.quote(str(folder))} "


def _requirement(extras: list[str]) -> str:
    """Return the requirement that installs this distribution with these extras.

    It names the source that this distribution was installed from: a folder or a repository if
    `direct_url.json` names one (PEP 610), otherwise the package index.
    """
    extras_suffix = f"[{','.join(extras)}]"
    try:
        record = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        record = {}
    url = str(record.get("url") or "")
    if not url:  # installed from a package index
        return NAME + extras_suffix
    if url.startswith("file:"):
        return unquote(urlsplit(url).path) + extras_suffix
    version_control = record.get("vcs_info", {}).get("vcs")
    source = f"{version_control}+{url}" if version_control else url
    return f"{NAME}{extras_suffix} @ {source}"
