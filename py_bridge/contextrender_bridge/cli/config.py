"""Show every setting with its value, its source (environment, file or default) and its purpose."""

import argparse
import textwrap

from contextrender_bridge.base.settings import (
    SettingValue,
    config_file,
    list_settings,
    unknown_variables,
)
from contextrender_bridge.printing import add_json, print_json, print_notice


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender config`."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the settings, and sentences on invalid ones. Secrets are not shown.

    Return 1 if a setting is invalid, otherwise 0.
    """
    problems: list[str] = []
    settings = list_settings(problems)  # adds a sentence to `problems` per invalid setting
    status = 1 if problems else 0
    if args.json:
        print_json({s.name: {"value": _format_value(s), "source": s.source} for s in settings})
        return status
    for setting in settings:
        print(f"{setting.name:<26} {_format_value(setting):<34} {setting.source}")
        description = textwrap.fill(setting.description, 76)
        print(textwrap.indent(description, "    "))
    missing_note = "" if config_file().exists() else " (does not exist)"
    print(f"\nConfiguration file: {config_file()}{missing_note}")
    for sentence in [*problems, *unknown_variables()]:
        print_notice(sentence)
    return status


def _format_value(setting: SettingValue) -> str:
    """Return a setting's value as a user writes it. A secret is not shown."""
    if setting.secret and setting.value:
        return "(set)"
    if isinstance(setting.value, bool):
        return "on" if setting.value else "off"
    if isinstance(setting.value, frozenset | tuple):
        return ", ".join(sorted(setting.value)) or "-"
    return "-" if setting.value in ("", None) else str(setting.value)
