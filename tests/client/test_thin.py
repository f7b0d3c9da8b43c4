"""The client without extras: its imports, and the commands that need nothing else."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import contextrender_bridge
import pytest

PACKAGE = Path(contextrender_bridge.__file__).parent
SERVER_PARTS = {
    "adapters",
    "engine",
    "evaluation",
    "jac_commands.py",
    "runtime",
    "server",
    "sessions",
    "store",
}
EXTRA_PACKAGES = (
    "aiohttp bcrypt byllm engine evaluation jac_scale jaclang jwt litellm mcp numpy pydantic "
    "pydantic_core starlette tiktoken uvicorn wordllama yaml zstandard"
)
WITHOUT_EXTRAS = f"""
import importlib.util, sys
real = importlib.util.find_spec
def without(name, package=None):
    return None if name.partition(".")[0] in {EXTRA_PACKAGES.split()!r} else real(name, package)
importlib.util.find_spec = without
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRA_PACKAGES.split()!r}:
            raise ModuleNotFoundError(name)
for name in [name for name in sys.modules if name.partition(".")[0] in {EXTRA_PACKAGES.split()!r}]:
    del sys.modules[name]
sys.meta_path.insert(0, Missing())
from contextrender_bridge.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run_without_extras(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as if installed without extras, with an empty home folder."""
    environment = {"CONTEXTRENDER_DATA": str(folder), "HOME": str(folder)}
    run = [sys.executable, "-c", WITHOUT_EXTRAS, *words]
    return subprocess.run(run, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words", ["sessions", "show mine", "explain mine", "graph mine", "recall mine --query x"]
)
def test_views_need_only_the_client(tmp_path: Path, words: str) -> None:
    """Each command runs until it finds no service."""
    process = run_without_extras(tmp_path, *words.split())
    assert process.returncode == 1
    assert "start `contextrender serve`" in process.stderr and process.stderr.count("\n") == 1


def test_doctor_needs_only_the_client(tmp_path: Path) -> None:
    process = run_without_extras(tmp_path, "doctor", "--json")
    assert json.loads(process.stdout)["ok"], process.stderr


def test_client_sources_are_python_3_10() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] in SERVER_PARTS | {"app"}:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("typing", "enum", "datetime"):
                newer = {"Self", "assert_never", "override", "StrEnum", "UTC", "NotRequired"}
                assert not newer & {alias.name for alias in node.names}, path
            if isinstance(node, ast.Import):
                assert "tomllib" not in {alias.name for alias in node.names}, path
