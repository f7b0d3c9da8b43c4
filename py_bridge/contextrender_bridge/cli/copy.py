"""Copy everything from one store to another; stop the servers of both first."""

import argparse

from contextrender_bridge.errors import CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender copy`."""
    place = "sqlite:DIR (a data folder) or postgresql://..."
    parser.add_argument("--from", dest="source", required=True, metavar="STORE", help=place)
    parser.add_argument("--to", dest="target", required=True, metavar="STORE", help=place)


def run(args: argparse.Namespace) -> int:
    """Copies, or goes on where it was interrupted, and compares."""
    import contextrender_bridge.server  # noqa: F401  (the app's own packages)
    from graph.runtime.copying import NotTheSame, copy_store
    from graph.runtime.opening import open_named

    if args.source == args.target:
        raise CommandError("these are the same store.")
    source, target = open_named(args.source, new=False), open_named(args.target, new=True)
    try:
        counts = copy_store(source, target)
    except NotTheSame as difference:
        raise CommandError(f"{difference}.") from None
    finally:
        source.close()
        target.close()
    told = ", ".join(f"{count} {table}" for table, count in counts.items())
    print(f"Copied and compared: {told}. Tokens stay good with the same `jwt_secret`.")
    return 0
