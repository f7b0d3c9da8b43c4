"""Delete sessions beyond the limits `keep_days`, `keep_sessions` and `keep_mb`."""

import argparse
import time
from contextlib import closing
from pathlib import Path

from contextrender_bridge.base.paths import app_dir, data_dir, make_private
from contextrender_bridge.base.settings import current_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender gc`."""
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"the server's ({data_dir()})")


def run(args: argparse.Namespace) -> int:
    """A line for each session, and the sum; a server that runs on the store may go on."""
    from contextrender_bridge.server.accounts.users import Accounts
    from contextrender_bridge.server.limits.retention import Retention
    from contextrender_bridge.server.runtime import Runtime

    data = make_private(args.data or data_dir())
    with closing(Runtime(app_dir(), data)) as runtime:
        retention = Retention(runtime, Accounts(runtime, data), current_settings())
        found = list(retention.due()) if args.dry_run else retention.collect()
    for one in found:
        used = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one.session.updated_at))
        size = f"{one.bytes / 2**20:.1f} MB"
        print(f"{one.user.name}  {one.session.key}  {one.why}  {size}  last used {used} UTC")
    total = sum(one.bytes for one in found) / 2**20
    done = "would go" if args.dry_run else "deleted"
    print(f"Sessions {done}: {len(found)}, {total:.1f} MB.")
    return 0
