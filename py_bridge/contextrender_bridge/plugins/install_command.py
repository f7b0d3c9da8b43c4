"""Install the plugin for a coding agent: claude, pi, opencode or codex.

The plugin uses the agent's own hooks. The agent keeps its login and its provider's address.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from contextrender_bridge.base.compaction_size import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import is_in_cache
from contextrender_bridge.base.paths import data_dir, make_private
from contextrender_bridge.plugins.changes import Change
from contextrender_bridge.plugins.hosts import HOSTS
from contextrender_bridge.plugins.hosts.base import Host
from contextrender_bridge.plugins.options import AFTER_SUMMARY, COMPACT, RENDER, PluginOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender install`."""
    parser.add_argument("host", metavar="AGENT", help=", ".join(HOSTS))
    parser.add_argument(
        "--mode",
        choices=(COMPACT, AFTER_SUMMARY, RENDER),
        help="compact: replace a compacted history (default); after-summary: add to the agent's "
        "own summary; render: render each model call, too",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=DEFAULT_TOKENS,
        help=f"the most that the text of a compaction may have (default {DEFAULT_TOKENS:,})",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what it would change")


def run(args: argparse.Namespace) -> int:
    """Install the plugin for `args.host`: print each change, and make it unless it is a dry run.

    Raise CommandError if the agent, an option or a change is not possible.
    """
    host = find_host(args.host)
    if not MIN_TOKENS <= args.tokens <= MAX_TOKENS:
        raise CommandError(f"--tokens must be from {MIN_TOKENS:,} to {MAX_TOKENS:,}.", 2)
    data = data_dir().absolute()
    options = PluginOptions(args.mode or host.modes[0], args.tokens, data)
    make_changes(host.install(options), dry_run=args.dry_run)
    if not args.dry_run:
        make_private(data)
        print(f"{host.title} has the plugin from its next start on (mode {options.mode}).")
        for line in host.after_install():
            print(line)
        if is_in_cache():
            print(
                "The plugin starts the service from uv's cache. Before you clean the cache, "
                "install ContextRender with `uv tool install`, and run this command again."
            )
    return 0


def find_host(name: str) -> Host:
    """Return the agent of this name. Raise CommandError if there is no plugin for it."""
    if name not in HOSTS:
        raise CommandError(f"there are plugins for {', '.join(HOSTS)}, and none for {name}.", 2)
    return HOSTS[name]


def make_changes(changes: Sequence[Change], *, dry_run: bool) -> None:
    """Print a line for each change, and make the change unless this is a dry run."""
    for change in changes:
        print(change.describe(), flush=True)
        if not dry_run:
            change.apply()
    if not changes:
        print("Nothing has to be changed.")
