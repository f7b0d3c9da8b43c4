"""Check the set-up of this machine, and say what to do about what is wrong."""

from __future__ import annotations

import argparse

from contextrender_bridge.base.settings import unfit_as_defaults
from contextrender_bridge.cli.diagnosis import CHECKS, Finding
from contextrender_bridge.printing import add_json, print_json

MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender doctor`."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the findings; 1 if one of them stops ContextRender from working."""
    with unfit_as_defaults():
        findings = [finding for check in CHECKS for finding in check()]
    bad = any(finding.state == "bad" for finding in findings)
    if args.json:
        print_json({"ok": not bad, "findings": [vars(finding) for finding in findings]})
    else:
        print("\n".join(_line(finding) for finding in findings))
    return 1 if bad else 0


def _line(finding: Finding) -> str:
    told = f"{MARKS[finding.state]}  {finding.what:<12} {finding.told}"
    return f"{told}\n{'':<19}-> {finding.advice}" if finding.advice else told
