"""The environments of other libraries, in which ContextRender's counter works too."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.peers.catalogue import COUNTING

BENCH = Path(__file__).parents[2] / "bench" / "peers"
COUNT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from engine.text.tokens import counter_for
print(counter_for(None).text("one two three"))
"""


def closure(requirements: tuple[str, ...]) -> set[str]:
    """What these and their dependencies are, as far as it is installed here."""
    found: set[str] = set()
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        try:
            waiting += [Requirement(other) for other in requires(name) or ()]
        except PackageNotFoundError:
            continue
    return found


def test_what_is_installed_for_counting_is_enough_for_it() -> None:
    there = closure(COUNTING)
    ours = {"contextrender", "contextrender-bridge"}
    absent = {
        module
        for module, owners in packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & (there | ours)
    }
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(absent=absent)],
        capture_output=True,
        text=True,
        cwd=BENCH.parents[1],
        check=False,
    )
    assert (done.stdout, done.stderr) == ("3\n", "")
