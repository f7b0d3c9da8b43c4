"""The built console in the package matches its sources, is small and names no other host."""

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "console"
BUILT = REPOSITORY / "py_bridge" / "contextrender_bridge" / "console"
MOST_BYTES = 120_000
"""Compressed size of everything that a browser loads."""


def test_console_is_built_from_these_sources() -> None:
    single = ["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.js"]
    folders = [path for folder in ("public", "src") for path in (SOURCES / folder).rglob("*")]
    files = [path.relative_to(SOURCES).as_posix() for path in folders if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted([*single, *files]):
        digest.update(f"{name}\0".encode() + (SOURCES / name).read_bytes() + b"\0")
    built = (BUILT / "sources.sha256").read_text().strip()
    assert digest.hexdigest() == built, "run `npm ci && npm run build` in console/"


def test_console_is_small() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(BUILT, "console")
    assert len(packed.getvalue()) <= MOST_BYTES


def test_console_names_no_other_host() -> None:
    for path in BUILT.rglob("*"):
        if path.suffix in (".html", ".js", ".css", ".svg"):
            hosts = set(re.findall(r"https?://([\w.-]+)", path.read_text(encoding="utf-8")))
            assert hosts <= {"www.w3.org"}, path.name


def test_versions_are_pinned_and_lock_names_no_registry() -> None:
    package = json.loads((SOURCES / "package.json").read_text())
    pinned = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pinned.values())
    assert "resolved" not in (SOURCES / "package-lock.json").read_text()


def test_console_never_inserts_markup() -> None:
    for path in (SOURCES / "src").rglob("*.ts*"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|insertAdjacentHTML|dangerouslySet|document\.write|eval\(", text
        ), path
