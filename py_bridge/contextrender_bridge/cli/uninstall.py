"""List what ContextRender has left on this machine, and remove it."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.settings import config_file
from contextrender_bridge.client.credentials import stored_credentials
from contextrender_bridge.local_service import answers
from contextrender_bridge.plugins.hosts import HOSTS
from contextrender_bridge.plugins.install_command import find_host, make_changes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender uninstall`."""
    parser.add_argument(
        "host",
        nargs="?",
        default="",
        metavar="AGENT",
        help=f"remove only the plugin in an agent: {', '.join(HOSTS)}",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what is left")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """List the files, then remove them once that is confirmed."""
    if args.host:
        host = find_host(args.host)
        make_changes(host.uninstall(data_dir().absolute()), dry_run=args.dry_run)
        return 0
    found = list(left_files())
    for name in installed_plugins():
        print(f"The plugin in {name}: `contextrender uninstall {name}` removes it.")
    for path, what in found:
        print(f"{path}  {what}")
    if not found:
        print("Nothing is left beside the program.")
    if args.dry_run or not found:
        print(f"The program itself: {program_removal()}")
        return 0
    if (url := _running()) is not None:
        raise CommandError(f"the service at {url} is running: stop it first.")
    if not args.yes:
        if not sys.stdin.isatty():
            raise CommandError("this is no terminal: confirm with --yes.")
        if input("Remove all of it for good? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was removed")
            return 1
    for path, _ in found:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        print(f"removed {path}")
    print(f"The program itself: {program_removal()}")
    return 0


def installed_plugins() -> list[str]:
    """Return the agents that have our plugin."""
    return [name for name, host in HOSTS.items() if host.is_installed(data_dir().absolute())]


def left_files() -> Iterator[tuple[Path, str]]:
    """Yield each path that is there, and what it is."""
    data, config = data_dir(), config_file()
    if data.is_dir():
        size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file()) / 2**20
        yield data, f"data folder: sessions, tokens, logs ({size:.1f} MB)"
    if config.is_file():
        yield config, "settings"


def program_removal() -> str:
    """Return the command that removes the program, as it seems to have been installed."""
    place = Path(sys.prefix).parts
    if "tools" in place and "uv" in place:
        return "uv tool uninstall contextrender"
    if "pipx" in place:
        return "pipx uninstall contextrender"
    return f"{sys.executable} -m pip uninstall contextrender"


def _running() -> str | None:
    """Return the address of a service that runs over the data folder."""
    try:
        url = stored_credentials(data_dir()).url
    except NoCredentials:
        return None
    return url if answers(url) else None
