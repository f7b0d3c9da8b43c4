"""`contextrender demo` and the run that is shipped with it."""

import pytest
from contextrender_bridge.cli import main


@pytest.mark.slow
def test_it_replays_the_shipped_run_and_explains_a_call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXGRAPH_MODEL", "must-not/be-called")
    monkeypatch.setenv("CONTEXTRENDER_URL", "http://127.0.0.1:9")
    assert main(["demo"]) == 0
    printed = capsys.readouterr()
    assert "Replaying model calls: 192 of 192" in printed.err
    for words in (
        "checkout-latency",
        "contextrender_frozen is for live agents",
        "prune",
        "full",
        "One call explained: call ",
        "omitted: left out when the prompt was rebuilt at call ",
        "Other policies",
        "After 1 compaction by the agent",
        "shown within 24,000 tokens",
    ):
        assert words in printed.out


def test_a_missing_file_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "no-such-file.jsonl"]) == 1
    assert capsys.readouterr().err.startswith("contextrender: cannot read no-such-file.jsonl")
