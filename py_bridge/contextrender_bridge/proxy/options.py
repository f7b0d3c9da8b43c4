"""What `proxy` and `wrap` take of how histories are shortened."""

from __future__ import annotations

import argparse
from typing import Any

from contextrender_bridge.base.setting_kinds import (
    LIVE_BUDGET,
    LIVE_POLICY,
    as_budget,
    as_patterns,
    as_policy,
    as_share,
)
from contextrender_bridge.base.settings import checked

_READ = {
    "budget": as_budget,
    "policy": as_policy,
    "bypass_tools": as_patterns,
    "keep_tools": as_patterns,
    "holdout": as_share,
}


def add_history_options(parser: argparse.ArgumentParser) -> None:
    """Each has a setting of its name."""
    parser.add_argument(
        "--budget", metavar="N", help=f"tokens of history (the session's, else {LIVE_BUDGET})"
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help=f"which policy chooses what is shown (the session's, else {LIVE_POLICY})",
    )
    parser.add_argument(
        "--bypass-tools",
        metavar="NAMES",
        help="tools whose results are never touched: names, globs",
    )
    parser.add_argument(
        "--keep-tools", metavar="NAMES", help="tools whose results stay while there is room"
    )
    parser.add_argument(
        "--holdout", metavar="SHARE", help="share of sessions sent whole, to compare with: 10%%"
    )


def history_options(args: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, by their settings. Raises CommandError."""
    return {
        name: checked(read, text, f"--{name.replace('_', '-')}")
        for name, read in _READ.items()
        if (text := getattr(args, name)) is not None
    }
