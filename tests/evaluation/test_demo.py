"""`contextrender demo` and the run that is shipped with it."""

import pytest
from contextrender_bridge.cli import main


@pytest.mark.slow
def test_it_replays_the_shipped_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXGRAPH_MODEL", "must-not/be-called")
    assert main(["demo"]) == 0
    printed = capsys.readouterr()
    assert "Replaying model calls: 192 of 192" in printed.err
    for words in (
        "checkout-latency",
        "contextrender_frozen is for live agents",
        "prune",
        "full",
        "After 1 compaction by the agent",
        "shown within 24,000 tokens",
    ):
        assert words in printed.out


def test_a_missing_file_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "no-such-file.jsonl"]) == 1
    assert capsys.readouterr().err.startswith("contextrender: cannot read no-such-file.jsonl")
