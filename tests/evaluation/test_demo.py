"""`contextrender demo` and the run that is shipped with it."""

import pytest

from tests.support.command import contextrender


@pytest.mark.slow
def test_it_replays_the_shipped_run_and_explains_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTXGRAPH_MODEL", "must-not/be-called")
    monkeypatch.setenv("CONTEXTRENDER_URL", "http://127.0.0.1:9")
    done = contextrender("demo")
    assert done.returncode == 0
    assert "Replaying model calls: 192 of 192" in done.stderr
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
        assert words in done.stdout
