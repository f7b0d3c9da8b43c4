"""The commands `backup`, `restore`, `gc` and `check`, which work on the whole store."""

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.cli.parser import add_data
from contextrender_bridge.cli.user import open_accounts
from contextrender_bridge.printing import add_json, print_json

DAMAGED_FILE = "damaged file"
"""The kind of the findings on the database's file as a whole."""


class Backup:
    """Back up the store into a new folder, even while it is in use."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of `contextrender backup`."""
        parser.add_argument("target", type=Path, metavar="DEST", help="a new or empty folder")
        add_data(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Write the backup into the folder, and print how much it has. Return 0."""
        from contextrender_bridge.store.backup import back_up
        from contextrender_bridge.store.opening import open_existing

        with closing(open_existing(args.data)) as store:
            counts = back_up(store, args.data, args.target)
        print(
            f"Backed up {counts['nodes']} nodes and {counts['users']} users to {args.target}. Keep "
            "it as secret as the data folder: it has contents and the secret that signs tokens."
        )
        return 0


class Restore:
    """Restore a backup into an empty data folder, or into the empty database of the settings."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of `contextrender restore`."""
        parser.add_argument(
            "source", type=Path, metavar="SRC", help="a folder that `contextrender backup` wrote"
        )
        add_data(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Restore the whole backup, and print its size. If that fails, restore nothing.

        Raise CommandError if the database of the settings is not empty.
        """
        from contextrender_bridge.store.backup import is_empty, restore
        from contextrender_bridge.store.opening import open_named

        database = current_settings().database
        # Without a database in the settings, the rows are restored into the data folder, too.
        opened_store = closing(open_named(database, new=True)) if database else nullcontext()
        with opened_store as store:
            if store is not None and not is_empty(store):
                raise CommandError(
                    f"{store.place} is not empty. Set an empty database to restore into."
                )
            counts = restore(args.source, args.data, store)
        print(f"Restored {counts['nodes']} nodes and {counts['users']} users to {args.data}.")
        return 0


class Collect:
    """Delete sessions beyond the limits of the settings `retention_*`."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of `contextrender gc`."""
        parser.add_argument(
            "--dry-run", action="store_true", help="only print what would be deleted"
        )
        add_data(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Delete the sessions beyond the limits, and print a line for each and their total size.

        With `--dry-run`, only print them. A server may run meanwhile.
        """
        from contextrender_bridge.server.limits.retention import Retention
        from contextrender_bridge.store.opening import check_store_exists

        check_store_exists(args.data)
        with open_accounts(args.data) as (runtime, accounts):
            retention = Retention(runtime, accounts, current_settings())
            # The deletions that are due, or those that have been made.
            deletions = list(retention.due_sessions()) if args.dry_run else retention.delete_due()
        for deletion in deletions:
            session, megabytes = deletion.session, deletion.bytes / 2**20
            last_use = time.strftime("%Y-%m-%d %H:%M", time.gmtime(session.updated_at))
            print(
                f"{deletion.user.name}  {session.key}  {deletion.reason}  {megabytes:.1f} MB  "
                f"last used {last_use} UTC"
            )
        total_megabytes = sum(deletion.bytes for deletion in deletions) / 2**20
        verb = "would go" if args.dry_run else "deleted"
        print(f"Sessions {verb}: {len(deletions)}, {total_megabytes:.1f} MB.")
        return 0


class Check:
    """Check every row of the store for missing, unreadable and dangling ones."""

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of `contextrender check`."""
        add_data(parser)
        parser.add_argument(
            "--repair",
            action="store_true",
            help="quarantine unreadable and orphan rows (`jac db quarantine` lists them), write "
            "missing edges again, and remove edges that lead nowhere",
        )
        add_json(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        """Check the store and print the findings, after repairing them with `--repair`.

        Return 1 if a finding was not repaired, otherwise 0.
        """
        findings = _check_store(args.data, repairs=args.repair)
        if args.json:
            print_json({"ok": not findings, "findings": findings})
        else:
            _print_findings(findings)
            if any(finding["kind"] == DAMAGED_FILE for finding in findings):
                print("The database's file is damaged. Restore a backup; --repair changes nothing.")
        return 0 if all(finding["repaired"] for finding in findings) else 1


def _check_store(data: Path, *, repairs: bool) -> list[dict[str, Any]]:
    """Check all rows of the store, and return the findings as plain values.

    With `repairs`, also repair them, unless the database's file is damaged. `repaired` of a finding
    is true if this succeeded.
    """
    from contextrender_bridge.runtime.archetypes import read_problem
    from contextrender_bridge.server.runtime import load_app
    from contextrender_bridge.sessions.check import check_store
    from contextrender_bridge.sessions.findings import repair
    from contextrender_bridge.store.opening import open_existing

    load_app(app_dir())
    with closing(open_existing(data)) as store:
        # A repair changes rows that the check reads, so finish the check first.
        findings = list(check_store(store, read_problem))
        # A write into a damaged file could damage more of it.
        is_file_intact = not any(finding.kind == DAMAGED_FILE for finding in findings)
        can_repair = repairs and is_file_intact
        return [
            {
                "kind": finding.kind,
                "session": finding.session,
                "user": str(finding.owner),
                "message": finding.message,
                "repaired": can_repair and repair(store, finding),
            }
            for finding in findings
        ]


def _print_findings(findings: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for each finding, and then how many there are of each kind.

    Findings that belong to no session come last.
    """
    for finding in sorted(findings, key=lambda f: (not f["session"], f["user"], f["session"])):
        place = f"session {finding['session']!r}" if finding["session"] else "in no session"
        note = " (repaired)" if finding["repaired"] else ""
        print(f"{place}: {finding['kind']} {finding['message']}{note}")
    if not findings:
        print("Nothing is wrong.")
        return
    counts = Counter(str(finding["kind"]) for finding in findings)
    repaired = sum(bool(finding["repaired"]) for finding in findings)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{kinds}; {repaired} repaired. Damaged sessions can be exported and continued.")
