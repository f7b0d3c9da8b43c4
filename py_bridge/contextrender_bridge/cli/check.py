"""Check every row of the store: what is lost, unreadable or belongs to nothing."""

import argparse
from collections import Counter
from pathlib import Path

from contextrender_bridge.paths import data_dir
from contextrender_bridge.printing import add_json, print_json

MOST_SHOWN = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender check`."""
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"data folder ({data_dir()})")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="put aside what cannot be read or belongs to nothing (`jac db quarantine` shows it), "
        "and remove edges that lead nowhere",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Prints what is found; 1 if anything was, and was not repaired."""
    import contextrender_bridge.server  # noqa: F401  (the app's own packages)
    from contextrender_bridge.paths import app_dir
    from contextrender_bridge.server.runtime import load_app
    from graph.runtime.checking import check_store, repair
    from graph.runtime.opening import open_store

    load_app(app_dir())
    store = open_store(args.data or data_dir())
    try:
        found = list(check_store(store))
        mended = [args.repair and repair(store, one) for one in found]
    finally:
        store.close()
    told = [
        {"kind": one.kind, "what": one.told, "repaired": done}
        for one, done in zip(found, mended, strict=True)
    ]
    if args.json:
        print_json({"ok": not found, "findings": told})
    else:
        for one in told[:MOST_SHOWN]:
            print(f"{one['kind']:<10} {one['what']}{' (repaired)' if one['repaired'] else ''}")
        print(_summary(told))
    return 0 if all(mended) else 1


def _summary(told: list[dict[str, object]]) -> str:
    if not told:
        return "Nothing is wrong."
    counts = Counter(str(one["kind"]) for one in told)
    repaired = sum(bool(one["repaired"]) for one in told)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return f"{listed}; {repaired} repaired. Sessions with losses can be exported and go on."
