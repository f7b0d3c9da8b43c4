"""Allowed imports of the Jac files (import-linter checks the Python files), and file sizes."""

import re
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT_PACKAGES = {"contextrender_bridge", "graph", "nodes", "views", "walkers"}
RUNTIME = {"byllm", "jac_scale", "jaclang"}
LONGEST = 250

BRIDGE = "contextrender_bridge"
BASE, ENGINE, EVALUATION = f"{BRIDGE}.base", f"{BRIDGE}.engine", f"{BRIDGE}.evaluation"
OPENED = f"{BRIDGE}.audit.opened"
STORE_MODULES = {f"{BRIDGE}.runtime", f"{BRIDGE}.sessions", f"{BRIDGE}.store"}
MAY = {
    "contextrender.jac": {"walkers"},
    "nodes": {"nodes", ENGINE},
    "views": {
        *("views", BASE, ENGINE),
        *(f"{EVALUATION}.{name}" for name in ("diagnosis", "verdict")),
        OPENED,
    },
    "graph": {"graph", ENGINE, "nodes", "views", BASE, *STORE_MODULES},
    "walkers": {
        *("graph", ENGINE, "nodes", "views", f"{EVALUATION}.advice", OPENED, BASE, *STORE_MODULES),
        f"{BRIDGE}.client.fitting",
    },
    "engine": {BASE, ENGINE},
    "evaluation": {BASE, ENGINE, EVALUATION},
}
"""The own modules that each layer may import. Walkers are endpoints; none imports another."""

# byllm calls the model that writes summaries.
RUNTIME_DOORS = {"py_bridge/contextrender_bridge/engine/models/result_summary.jac": {"byllm"}}


def listed(*patterns: str) -> list[str]:
    command = ["git", "ls-files", *patterns]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in ran.stdout.splitlines() if (ROOT / path).is_file()]


def layer_of(path: str) -> str:
    return path.removeprefix("py_bridge/contextrender_bridge/").split("/")[0]


JAC = [path for path in listed("*.jac") if layer_of(path) in MAY]


def imports_of(path: str) -> list[str]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r"^\s*import (?:from )?([\w.]+)", text, re.M)


def test_jac_files_import_only_lower_layers() -> None:
    wrong = []
    for path, module in [(file, module) for file in JAC for module in imports_of(file)]:
        top, prefixes = module.split(".")[0], MAY[layer_of(path)]
        if top in RUNTIME:
            is_runtime = path.startswith("py_bridge/contextrender_bridge/runtime/")
            may_import = is_runtime or top in RUNTIME_DOORS.get(path, set())
        else:
            may_import = top not in PROJECT_PACKAGES or any(
                f"{module}.".startswith(f"{p}.") for p in prefixes
            )
        wrong += [] if may_import else [f"{path}: {module}"]
    assert not wrong


def test_jac_files_use_their_imports() -> None:
    import_pattern = re.compile(r"import from [\w.]+ \{([^}]*)\}")
    unused = []
    for path in JAC:
        text = (ROOT / path).read_text(encoding="utf-8")
        code = import_pattern.sub("", text)
        for name in re.findall(r"(\w+)\s*(?:,|$)", ",".join(import_pattern.findall(text))):
            unused += [] if re.search(rf"\b{name}\b", code) else [(path, name)]
    assert {path for path, _ in unused} <= {"contextrender.jac"}, unused


def test_engine_reads_no_settings() -> None:
    """The engine reads no settings; it may set environment variables for libraries."""
    import_pattern = re.compile(r"base\.settings (?:import|\{)\s*([^}\n]+)")
    for path in listed(
        "py_bridge/contextrender_bridge/engine/*.py", "py_bridge/contextrender_bridge/engine/*.jac"
    ):
        for names in import_pattern.findall((ROOT / path).read_text(encoding="utf-8")):
            assert names.strip() == "set_for_library", path


def test_jac_files_have_no_import_cycles() -> None:
    modules = {path.removesuffix(".jac").replace("/", "."): path for path in JAC}
    below = {name: modules.keys() & imports_of(path) for name, path in modules.items()}
    TopologicalSorter(below).prepare()  # raises CycleError, which names them


def test_long_file_gives_a_reason() -> None:
    sources = listed("*.py", "*.jac", "*.ts", "*.tsx", "*.js", "*.mjs")
    built = "py_bridge/contextrender_bridge/console/"
    long = set()
    for path in sources:
        tests = path.startswith("tests/") or "/test/" in path or "/test_" in path
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        has_reason = any("long because" in line.lower() for line in lines[:8])
        if len(lines) > LONGEST and not (tests or has_reason or path.startswith(built)):
            long.add(path)
    assert not long, "above 250 lines: say in the first lines `Long because ...`, or split"
