"""What the distribution takes on disk, by part: `make size`.

Each set of extras is installed from a built wheel at the locked versions into an empty environment,
without compiled bytecode. `runtime` is jaclang and jac-scale with all they require, which is not
ours to choose; what a set has beyond that is.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
UV = [sys.executable, "-m", "uv"]
RUNTIME = ["jaclang", "jac-scale"]
SETS = ("", "proxy,mcp", "server", "server,proxy,mcp", "server,proxy,mcp,models")
LARGEST = 8


def main() -> None:
    """Prints a table."""
    with tempfile.TemporaryDirectory() as place:
        build = ["-m", "build", "--no-isolation", "--wheel", "--outdir", place]
        subprocess.run(
            [sys.executable, *build, str(REPOSITORY / "py_bridge")], check=True, capture_output=True
        )
        (wheel,) = Path(place).glob("*.whl")
        runtime = installed(Path(place), RUNTIME)
        print(f"{'installed':<40}{'MB':>6}{'ours':>6}  largest, beyond the runtime's own")
        _row("runtime: jaclang, jac-scale", runtime, runtime)
        for extras in SETS:
            named = f"{wheel}[{extras}]" if extras else str(wheel)
            _row(f"contextrender[{extras}]", installed(Path(place), [named]), runtime)


def installed(place: Path, wanted: list[str]) -> dict[str, int]:
    """Bytes by top folder or file of an environment with these alone."""
    (packages,) = install(place, wanted).glob("lib/python*/site-packages")
    return {one.name: _bytes(one) for one in packages.iterdir()}


def install(place: Path, wanted: list[str], python: str = sys.executable) -> Path:
    """An environment below `place` with these and what they require, as locked."""
    home = place / "venv"
    lock = REPOSITORY / "requirements" / "lock.txt"
    pins = place / "pins.txt"
    lines = lock.read_text(encoding="utf-8").splitlines()
    # Hashes would be asked of the wheel, too.
    pins.write_text("\n".join(one.rstrip(" \\") for one in lines if "==" in one), encoding="utf-8")
    venv = [*UV, "venv", "--quiet", "--clear", "--python", python, str(home)]
    subprocess.run(venv, check=True)
    pip = [*UV, "pip", "install", "--quiet", "--python", str(home / "bin" / "python")]
    subprocess.run([*pip, "--constraint", str(pins), *wanted], check=True)
    return home


def _row(name: str, sizes: dict[str, int], runtime: dict[str, int]) -> None:
    own = {name: size for name, size in sizes.items() if name not in runtime}
    ours = f"{_mb(sum(own.values())):>6}" if any(one in sizes for one in RUNTIME) else " " * 6
    most = sorted(own, key=lambda one: own[one], reverse=True)[:LARGEST]
    told = ", ".join(f"{one} {_mb(own[one])}" for one in most if _mb(own[one]))
    print(f"{name:<40}{_mb(sum(sizes.values())):>6}{ours}  {told}", flush=True)


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


def _mb(size: int) -> int:
    return round(size / 2**20)


if __name__ == "__main__":
    main()
