"""Every layout that was ever released opens and answers as it did; `layout-N.tgz` holds each.

A new layout comes with a folder of the one before, made by the version that wrote it.
"""

import tarfile
from pathlib import Path

import pytest
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.runtime import Runtime

from graph.runtime.schema import VERSION
from tests.graph.runtime.test_carry_over import answers, kept, known, known_words

HERE = Path(__file__).parent
LAYOUTS = sorted(HERE.glob("layout-*.tgz"))


def test_there_is_a_folder_of_each() -> None:
    assert [int(path.stem.split("-")[1]) for path in LAYOUTS] == list(range(1, VERSION + 1))


@pytest.mark.parametrize("folder", LAYOUTS, ids=lambda path: path.stem)
def test_it_answers_as_before(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTEXTRENDER_DATABASE", raising=False)
    with tarfile.open(folder) as archive:
        archive.extractall(tmp_path, filter="data")
    told = known(tmp_path)
    runtime = Runtime(app_dir(), tmp_path)
    assert kept(told, answers(runtime, told)) == known_words(told)
    assert runtime.store.read("SELECT value FROM meta WHERE name = 'layout'") == [(str(VERSION),)]
    runtime.close()
