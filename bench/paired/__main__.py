"""Two versions of the program side by side: calls of this checkout and another take turns.

    python bench/paired CHECKOUT [--results 500] [--times 40]

For a figure before and after a change: `git worktree add OTHER REVISION`, an environment in it
(`make -C OTHER .venv/ready`; without one this one's is used), then this. Each call is made in both
within the same hundredth of a second or so, first by the one and then by the other in turn, so that
the machine's moods hit both alike. Read the ratios: below 1 this checkout is the faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "py_bridge")]

from evaluation.progress import progress  # noqa: E402

CALLS: Final = {
    "render": "render, a new call and its result",
    "repeat": "render, nothing new",
    "sync": "sync, a new call and its result",
    "cold": "render, working set dropped",
}


class Version:
    """A checkout whose walkers run in a process of their own."""

    def __init__(self, checkout: Path, results: int) -> None:
        """Records a run of so many results there."""
        python = checkout / ".venv" / "bin" / "python"
        path = os.pathsep.join([str(checkout), str(checkout / "py_bridge")])
        self._checkout = checkout
        self._process = subprocess.Popen(
            [
                str(python) if python.exists() else sys.executable,
                str(HERE / "worker.py"),
                str(results),
            ],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def wait(self) -> None:
        """Until its run is recorded. Exits with what is wrong if it ends before."""
        self._told()

    def seconds(self, call: str) -> float:
        """What one such call takes there."""
        assert self._process.stdin is not None
        self._process.stdin.write(call + "\n")
        self._process.stdin.flush()
        return float(json.loads(self._told()))

    def _told(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise SystemExit(f"{self._checkout} ended: does its bench/latency run?")
        return line


def main() -> int:
    """Measures and prints."""
    args = _arguments()
    with ExitStack() as running:
        here, there = (
            running.enter_context(Version(checkout, args.results))
            for checkout in (ROOT, args.checkout.resolve())
        )
        for version in (here, there):
            version.wait()
        taken: dict[str, list[tuple[float, float]]] = {}
        with progress("Calling", len(CALLS) * args.times) as advance:
            for call in CALLS:
                taken[call] = _in_turn(here, there, call, args.times, advance)
    print(f"{args.results:,} results, {args.times} calls each; milliseconds, p50 (least)\n")
    print(f"{'':<36}{'this':>16}{'other':>16}{'ratio':>8}{'of least':>10}")
    for call, pairs in taken.items():
        print(f"{CALLS[call]:<36}{_row(pairs)}")
    return 0


def _in_turn(
    here: Version, there: Version, call: str, times: int, advance: Callable[[int], None]
) -> list[tuple[float, float]]:
    pairs = []
    for number in range(times):
        if number % 2:
            other = there.seconds(call)
            pairs.append((here.seconds(call), other))
        else:
            pairs.append((here.seconds(call), there.seconds(call)))
        advance(1)
    return pairs


def _row(pairs: Sequence[tuple[float, float]]) -> str:
    this, other = ([1000 * seconds for seconds in each] for each in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    shown = (f"{statistics.median(each):.1f} ({min(each):.1f})" for each in (this, other))
    return "".join(f"{one:>16}" for one in shown) + f"{ratio:>8.2f}{min(this) / min(other):>10.2f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/paired",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path, help="the other version")
    parser.add_argument("--results", type=int, default=500)
    parser.add_argument("--times", type=int, default=40)
    args = parser.parse_args()
    if not (args.checkout / "bench" / "latency").is_dir():
        parser.error(f"{args.checkout} is no checkout of this project")
    return args


if __name__ == "__main__":
    sys.exit(main())
