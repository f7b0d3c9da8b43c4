"""The support table says the versions that the adapters' locks have."""

import json
import re

import pytest

from tests.server.servers import REPOSITORY

ADAPTERS = REPOSITORY / "adapters"
ROW = re.compile(r"^\| \[[^]]+\]\((\w+)\) \| [^|]+ \| ([^|]+) \|", re.MULTILINE)
ROWS = dict(ROW.findall((ADAPTERS / "README.md").read_text()))
UNPACKAGED = {"acon"}


def test_every_adapter_has_a_row() -> None:
    folders = {path.parent.name for path in ADAPTERS.glob("*/README.md")}
    assert set(ROWS) == folders


@pytest.mark.parametrize("adapter", sorted(set(ROWS) - UNPACKAGED))
def test_the_version_is_the_locked_one(adapter: str) -> None:
    told = re.findall(r"\d+(?:\.\w+)+", ROWS[adapter])
    assert told, f"{adapter}: no version in its row"
    assert set(told) <= _locked(adapter)


def _locked(adapter: str) -> set[str]:
    """Of what the adapter names itself; a runtime may be in a folder of its own."""
    folder = ADAPTERS / adapter
    found = {
        version
        for path in folder.glob("requirements.txt")
        for version in re.findall(r"==([^\s;]+)", path.read_text())
    }
    for path in [*folder.glob("package.json"), *folder.glob("runtime/package.json")]:
        wanted = json.loads(path.read_text())
        at = path.with_name("package-lock.json")
        lock = json.loads(at.read_text()) if at.exists() else {}
        names = {**wanted.get("dependencies", {}), **wanted.get("optionalDependencies", {})}
        packages = lock.get("packages", {})
        found |= {packages.get(f"node_modules/{name}", {}).get("version", "") for name in names}
    return found
