"""Measure how long calls take, what they weigh, and what other libraries do beside them.

Everything is made up but repeatable: runs of 2,000-character results, 50, 500 and 5,000 of them.
Read the ratios: times depend on the machine and on what else it does.
"""

import argparse
import json
import logging
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SIZES = (50, 500, 5_000)
QUICK_SIZES = (50, 500)
SAMPLES, QUICK_SAMPLES = 400, 60


def main() -> int:
    """Measures, prints, and says which goals were met."""
    args = _arguments()
    os.environ.setdefault("CONTEXTRENDER_EMBED_MODEL", "wordllama")
    # A matrix product split over busy processors waits for the slowest: the floor would be higher.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path[:0] = [str(ROOT), str(ROOT / "py_bridge")]
    logging.disable(logging.WARNING)
    import tables
    from run import run

    sizes = QUICK_SIZES if args.quick else SIZES
    samples = QUICK_SAMPLES if args.quick else SAMPLES
    with tempfile.TemporaryDirectory(prefix="contextrender-bench-") as folder:
        report: dict[str, Any] = {"machine": _machine(), "quick": args.quick}
        report |= run(Path(folder), sizes, samples, peers=args.peers)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    tables.show(report)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller, without peers")
    parser.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        help="measure other libraries too, installing them once (not with --quick, unless asked)",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures")
    args = parser.parse_args()
    if args.peers is None:
        args.peers = not args.quick
    return args


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    sys.exit(main())
