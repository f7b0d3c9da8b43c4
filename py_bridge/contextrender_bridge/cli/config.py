"""Every setting in force and where it is from: environment, configuration file or default."""

from __future__ import annotations

import argparse
import json

from contextrender_bridge.settings import InForce, config_file, in_force


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender config`."""
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def run(args: argparse.Namespace) -> int:
    """Prints them; secrets only as set or not."""
    rows = in_force()
    if args.json:
        print(json.dumps({row.name: {"value": _shown(row), "source": row.source} for row in rows}))
        return 0
    for row in rows:
        print(f"{row.name:<20} {_shown(row):<34} {row.source}")
    there = "" if config_file().exists() else " (not there)"
    print(f"\nConfiguration file: {config_file()}{there}")
    return 0


def _shown(row: InForce) -> str:
    if row.secret and row.value:
        return "(set)"
    if isinstance(row.value, bool):
        return "on" if row.value else "off"
    if isinstance(row.value, frozenset | tuple):
        return ", ".join(sorted(row.value)) or "-"
    return "-" if row.value in ("", None) else str(row.value)
