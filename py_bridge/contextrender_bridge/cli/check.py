"""Check every row of the store: what is lost, unreadable or belongs to nothing."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

from contextrender_bridge.base.paths import app_dir, data_dir
from contextrender_bridge.printing import add_json, print_json

MOST_SHOWN = 20
"""Of one session."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender check`."""
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"data folder ({data_dir()})")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="quarantine what cannot be read or belongs to nothing (`jac db quarantine` lists it), "
        "write lost edges anew, and remove those that lead nowhere",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Prints what is found; 1 if anything was, and was not repaired."""
    import contextrender_bridge.server  # noqa: F401  (the app's own packages)
    from contextrender_bridge.server.runtime import load_app
    from graph.runtime.archetypes import unreadable
    from graph.sessions.check import check_store
    from graph.sessions.findings import repair
    from graph.store.opening import open_store

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


def _print(told: Sequence[Mapping[str, Any]]) -> None:
    """Session by session, then what belongs to none, then the sum."""
    of_one = sorted(told, key=lambda one: (not one["session"], one["user"], one["session"]))
    for (_, session), some in groupby(of_one, key=lambda one: (one["user"], one["session"])):
        findings = list(some)
        print(f"session {session!r}:" if session else "in no session:")
        for one in findings[:MOST_SHOWN]:
            print(f"  {one['kind']:<10} {one['what']}{' (repaired)' if one['repaired'] else ''}")
        if len(findings) > MOST_SHOWN:
            print(f"  and {len(findings) - MOST_SHOWN} more: --json tells all")
    print(_summary(told))


def _summary(told: Sequence[Mapping[str, Any]]) -> str:
    if not told:
        return "Nothing is wrong."
    counts = Counter(str(one["kind"]) for one in told)
    repaired = sum(bool(one["repaired"]) for one in told)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return f"{listed}; {repaired} repaired. Sessions with losses can be exported and go on."
