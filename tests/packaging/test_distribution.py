"""The wheel's metadata, the lock files, and that no document claims a package index."""

import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message

import pytest

from tests.packaging.documents import texts
from tests.server.servers import REPOSITORY

PINNED = re.compile(r"^([\w.\-]+)(?:\[[\w,]+\])?==([^ ;\\]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    place = tmp_path_factory.mktemp("dist")
    build = ["-m", "build", "--no-isolation", "--outdir", str(place), str(REPOSITORY / "py_bridge")]
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (n for n in packed.namelist() if n.endswith(".dist-info/METADATA"))
        assert any(n.endswith("licenses/LICENSE") for n in packed.namelist())
        return message_from_bytes(packed.read(name))


@pytest.mark.release
def test_wheel_has_metadata(metadata: Message) -> None:
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Author"] == "the ContextRender authors"
    assert metadata["Keywords"]
    assert len(metadata.get_all("Classifier") or ()) > 5
    description = metadata.get_payload(decode=True)
    assert isinstance(description, bytes)
    assert description.decode().strip() == (REPOSITORY / "README.md").read_text().strip()


@pytest.mark.release
def test_only_runtime_packages_are_pinned(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist") or []
    exact = {r.split("=")[0] for r in required if "==" in r.split(";")[0]}
    assert exact == {"byllm", "jac-scale", "jaclang", "wordllama"}
    assert [r for r in required if "==" not in r and "<" not in r.split(";")[0]] == []
    # With a marker, installers on an older Python would skip the runtime without an error.
    assert [requirement for requirement in required if "python_version" in requirement] == []


def test_license_copies_are_equal() -> None:
    texts = {(REPOSITORY / name).read_text() for name in ("LICENSE", "py_bridge/LICENSE")}
    assert len(texts) == 1


def test_service_lock_has_tested_versions() -> None:
    locks = [REPOSITORY / "requirements" / f"{name}.txt" for name in ("lock", "service")]
    tested, served = (dict(PINNED.findall(lock.read_text())) for lock in locks)
    assert served and {name: tested.get(name) for name in served} == served


def test_no_document_claims_a_package_index() -> None:
    claim = re.compile(r"(pip|pipx|uv tool|npm) (install|add) (-\S+ )*@?'?contextrender\b")
    assert [name for name, text in texts() if claim.search(" ".join(text.split()))] == []
