"""Show every setting with its value, its source (environment, file or default) and its purpose."""

from __future__ import annotations

import argparse
import sys
import textwrap

from contextrender_bridge.base.settings import (
    SettingValue,
    config_file,
    list_settings,
    unknown_variables,
)
from contextrender_bridge.printing import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender config`."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the settings, without secrets. Return 1 if a setting is invalid, otherwise 0."""
    invalid: list[str] = []
    rows = list_settings(invalid)
    if args.json:
        print_json({row.name: {"value": _format_value(row), "source": row.source} for row in rows})
        return 1 if invalid else 0
    for row in rows:
        print(f"{row.name:<26} {_format_value(row):<34} {row.source}")
        print(textwrap.fill(row.description, 80, initial_indent="    ", subsequent_indent="    "))
    missing_note = "" if config_file().exists() else " (does not exist)"
    print(f"\nConfiguration file: {config_file()}{missing_note}")
    for sentence in [*invalid, *unknown_variables()]:
        print(f"contextrender: {sentence}", file=sys.stderr)
    return 1 if invalid else 0


def _format_value(row: SettingValue) -> str:
    """Return a setting's value as a user writes it. A secret is not shown."""
    if row.secret and row.value:
        return "(set)"
    if isinstance(row.value, bool):
        return "on" if row.value else "off"
    if isinstance(row.value, frozenset | tuple):
        return ", ".join(sorted(row.value)) or "-"
    return "-" if row.value in ("", None) else str(row.value)
