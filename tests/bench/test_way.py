"""The way of a request: what counts as a change of file, and the goals."""

import importlib.util
from pathlib import Path

from bench.way import GOALS, OURS, Profile, Way

OWN = Path(OURS[0])


def made(path: Path, source: str) -> object:
    """A module whose code says it is that file's."""
    spec = importlib.util.spec_from_loader(path.stem, loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(source, str(path), "exec"), vars(module))
    return module


def test_a_call_from_one_file_of_ours_to_another_is_a_change_also_through_others_code() -> None:
    below = made(OWN / "below.py", "def leaf(n=0): return n")
    above = made(OWN / "above.py", "def both(leaf): return own() + leaf() + max([1], key=leaf)")
    exec(compile("def own(): return 0", str(OWN / "above.py"), "exec"), vars(above))
    profile = Profile()
    with profile.on():
        vars(above)["both"](vars(below)["leaf"])
    entered = {Path(name).name: count for name, count in profile.entered.items()}
    assert entered == {"above.py": 2, "below.py": 2}
    assert profile.changes == 3  # into above, and twice from there into below


def test_a_goal_is_missed_by_files_or_by_changes() -> None:
    files, changes = GOALS["explain"]
    good = Profile()
    good.entered.update(f"{n}.py" for n in range(files))
    good.changes = changes
    assert not Way("explain", [good]).missed()
    good.changes += 1
    assert "goal" in Way("explain", [good]).missed()
    good.changes = 0
    good.entered["one more.py"] += 1
    assert "goal" in Way("explain", [good]).missed()
