"""Commands for the whole store: back it up, restore it, check it, and keep it within its limits."""

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import app_dir, data_dir, make_data_private
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.printing import add_json, print_json


class Backup:
    """Back up the store while it is in use, into a new folder; `contextrender restore` reads it."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """The options of `contextrender backup`."""
        parser.add_argument("target", type=Path, metavar="DEST", help="a new or empty folder")
        _add_data(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Writes the folder and says what it holds."""
        from contextrender_bridge.store.backup import back_up
        from contextrender_bridge.store.opening import open_there

        data = args.data or data_dir()
        with closing(open_there(data)) as store:
            held = back_up(store, data, args.target)
        print(
            f"Backed up {held['nodes']} nodes and {held['users']} users to {args.target}. It is as "
            "secret as the data folder: with it go contents and the secret that signs tokens."
        )
        return 0


class Restore:
    """Restore a backup into an empty data folder, or into the empty database that is set."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """The options of `contextrender restore`."""
        parser.add_argument(
            "source", type=Path, metavar="SRC", help="a folder that `contextrender backup` wrote"
        )
        _add_data(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Restores it, all or nothing, and says what there is now."""
        from contextrender_bridge.store.backup import is_empty, restore
        from contextrender_bridge.store.opening import open_named

        data = args.data or data_dir()
        database = current_settings().database
        opened = closing(open_named(database, new=True)) if database else nullcontext()
        with opened as store:
            if store is not None and not is_empty(store):
                raise CommandError(
                    f"{store.place} is not empty: name an empty database, or keep what is there."
                )
            held = restore(args.source, data, store)
        print(f"Restored {held['nodes']} nodes and {held['users']} users to {data}.")
        return 0


class Collect:
    """Delete sessions beyond the limits of the settings `retention_*`."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """The options of `contextrender gc`."""
        parser.add_argument(
            "--dry-run", action="store_true", help="only print what would be deleted"
        )
        _add_data(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """A line for each session, and the sum; a server that runs on the store may go on."""
        from contextrender_bridge.server.accounts.users import Accounts
        from contextrender_bridge.server.limits.retention import Retention
        from contextrender_bridge.server.runtime import Runtime

        data = make_data_private(args.data or data_dir())
        with closing(Runtime(app_dir(), data)) as runtime:
            retention = Retention(runtime, Accounts(runtime, data), current_settings())
            found = list(retention.due()) if args.dry_run else retention.collect()
        for one in found:
            used = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one.session.updated_at))
            size = f"{one.bytes / 2**20:.1f} MB"
            print(f"{one.user.name}  {one.session.key}  {one.reason}  {size}  last used {used} UTC")
        total = sum(one.bytes for one in found) / 2**20
        done = "would go" if args.dry_run else "deleted"
        print(f"Sessions {done}: {len(found)}, {total:.1f} MB.")
        return 0


class Check:
    """Check every row of the store: what is lost, unreadable or belongs to nothing."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """The options of `contextrender check`."""
        _add_data(parser)
        parser.add_argument(
            "--repair",
            action="store_true",
            help="quarantine what cannot be read or belongs to nothing (`jac db quarantine` lists "
            "it), write lost edges anew, and remove those that lead nowhere",
        )
        add_json(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Prints what is found; 1 if anything was, and was not repaired."""
        from contextrender_bridge.runtime.archetypes import unreadable
        from contextrender_bridge.server.runtime import load_app
        from contextrender_bridge.sessions.check import check_store
        from contextrender_bridge.sessions.findings import repair
        from contextrender_bridge.store.opening import open_store

        load_app(app_dir())
        with closing(open_store(args.data or data_dir())) as store:
            found = list(check_store(store, unreadable))
            told = [
                {
                    "kind": one.kind,
                    "session": one.session,
                    "user": f"{one.owner}",
                    "what": one.told,
                    "repaired": args.repair and repair(store, one),
                }
                for one in found
            ]
        if args.json:
            print_json({"ok": not found, "findings": told})
        else:
            _print(told)
        return 0 if all(one["repaired"] for one in told) else 1


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"the server's ({data_dir()})")


def _print(told: Sequence[Mapping[str, Any]]) -> None:
    """A line for each finding: session by session, then what belongs to none, then the sum."""
    for one in sorted(told, key=lambda one: (not one["session"], one["user"], one["session"])):
        where = f"session {one['session']!r}" if one["session"] else "in no session"
        done = " (repaired)" if one["repaired"] else ""
        print(f"{where}: {one['kind']} {one['what']}{done}")
    if not told:
        print("Nothing is wrong.")
        return
    counts = Counter(str(one["kind"]) for one in told)
    repaired = sum(bool(one["repaired"]) for one in told)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{listed}; {repaired} repaired. Sessions with losses can be exported and go on.")
