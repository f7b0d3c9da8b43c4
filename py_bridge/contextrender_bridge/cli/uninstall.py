"""List the files and plugins of ContextRender on this machine, and remove them."""

import argparse
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.installing import how_to_uninstall
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.settings import config_file, current_settings
from contextrender_bridge.cli.parser import is_confirmed
from contextrender_bridge.client.credentials import stored_credentials
from contextrender_bridge.local_service import is_service_running
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
    parser.add_argument("--dry-run", action="store_true", help="list the files, remove nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(args: argparse.Namespace) -> int:
    """List the files and plugins, and remove the files after a confirmation.

    With an agent's name, remove only the plugin in that agent. Return 1 if the user does not
    confirm, otherwise 0. Raise CommandError if the service runs, or if there is no terminal to
    confirm at.
    """
    if args.host:
        host = find_host(args.host)
        make_changes(host.uninstall(data_dir().absolute()), dry_run=args.dry_run)
        return 0
    # Plugins are only listed, because each is removed by a command of its own.
    plugins = [name for name, host in HOSTS.items() if host.is_installed(data_dir().absolute())]
    for name in plugins:
        print(f"The plugin in {name}: `contextrender uninstall {name}` removes it.")
    description_by_path = dict(remaining_files())
    for path, description in description_by_path.items():
        print(f"{path}  {description}")
    if not description_by_path:
        print("Nothing is left beside the program.")
    elif not args.dry_run:
        _check_service_stopped()
        if not is_confirmed("Remove all of it", has_option=args.yes):
            print("nothing was removed")
            return 1
        for path in description_by_path:
            _remove(path)
            print(f"removed {path}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jac"
    if cache.is_dir():
        print(f"{cache}  Jac's cache of compiled code, which all Jac programs use; not removed")
    print(f"The program itself: {how_to_uninstall()}")
    return 0


def _check_service_stopped() -> None:
    """Raise CommandError if the service runs that uses the data folder."""
    try:
        url = stored_credentials(data_dir()).url
    except NoCredentials:
        return
    if is_service_running(url):
        minutes = round(current_settings().idle_timeout / 60)
        raise CommandError(
            f"the service at {url} is running. If `wrap` or a plugin started it, it stops about "
            f"{minutes} minutes after its last use. Otherwise stop `contextrender serve`."
        )


def _remove(path: Path) -> None:
    """Remove a file, a link, or a folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def remaining_files() -> Iterator[tuple[Path, str]]:
    """Yield the data folder and the configuration file, if they exist, each with a description."""
    data, config = data_dir(), config_file()
    if data.is_dir():
        size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file()) / 2**20
        yield data, f"data folder: sessions, tokens, logs ({size:.1f} MB)"
    if config.is_file():
        yield config, "settings"
