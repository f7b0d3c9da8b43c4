"""What a result of 2 KB takes in a database, with its call, its messages, its edges and indexes."""

import json
import runpy
from functools import partial
from pathlib import Path

import pytest
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.runtime import Runtime

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[3]
RESULTS = 200


@pytest.mark.parametrize(
    ("database", "most"),
    [("sqlite", 4_500), pytest.param("postgres", 6_000, marks=pytest.mark.slow)],
)
def test_a_result_of_2_kb_takes_little(
    database: str,
    most: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if database == "postgres":
        monkeypatch.setenv("CONTEXTRENDER_DATABASE", request.getfixturevalue("new_database"))
    runtime = Runtime(app_dir(), tmp_path)
    accounts = Accounts(runtime, tmp_path)
    accounts.add("local")
    root = accounts.named("local").root

    def size() -> int:
        runtime.store.reclaim()
        return runtime.store.size() or (tmp_path / "store.db").stat().st_size

    before = size()
    sample = runpy.run_path(str(REPOSITORY / "bench" / "sample.py"))["Sample"]()
    known: dict[str, object] = {}
    for messages in (sample.run(1), *(sample.turn() for _ in range(RESULTS - 1))):
        fields = {"session": "run", "messages": messages, **known}
        body = runtime.call("render", partial(dict, fields), root)
        (report,) = json.loads(body)["reports"]
        known = {"offset": report["offset"], "prefix": report["digest"]}
    assert size() - before < most * RESULTS
    accounts.close()
    runtime.close()
