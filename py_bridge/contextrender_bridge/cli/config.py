"""Show every setting in force, where it is from (environment, file or default) and what it is."""

from __future__ import annotations

import argparse
import sys
import textwrap

from contextrender_bridge.base.settings import InForce, config_file, in_force, unknown_variables
from contextrender_bridge.printing import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender config`."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Prints them; secrets only as set or not. 1 if one is unfit."""
    unfit: list[str] = []
    rows = in_force(unfit)
    if args.json:
        print_json({row.name: {"value": _shown(row), "source": row.source} for row in rows})
        return 1 if unfit else 0
    for row in rows:
        print(f"{row.name:<26} {_shown(row):<34} {row.source}")
        print(textwrap.fill(row.description, 80, initial_indent="    ", subsequent_indent="    "))
    there = "" if config_file().exists() else " (not there)"
    print(f"\nConfiguration file: {config_file()}{there}")
    for sentence in [*unfit, *unknown_variables()]:
        print(f"contextrender: {sentence}", file=sys.stderr)
    return 1 if unfit else 0


def _shown(row: InForce) -> str:
    if row.secret and row.value:
        return "(set)"
    if isinstance(row.value, bool):
        return "on" if row.value else "off"
    if isinstance(row.value, frozenset | tuple):
        return ", ".join(sorted(row.value)) or "-"
    return "-" if row.value in ("", None) else str(row.value)
