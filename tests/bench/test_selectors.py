"""bench/peers and bench/selectors: what is told of a peer's history, and the tables' marks."""

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from contextrender_bridge.wire import Json

from evaluation.runs import Run

BENCH = Path(__file__).parent.parent.parent / "bench"


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules of both folders, which are programs and no packages."""
    own = [str(BENCH / "peers"), str(BENCH / "selectors")]
    names = ("catalogue", "driving", "environments", "tables", "targets", "transcripts")
    sys.path[:0] = own
    try:
        yield SimpleNamespace(**{name: import_module(name) for name in names})
    finally:
        for folder in own:
            sys.path.remove(folder)
        for name in names:
            del sys.modules[name]


def call(id: str) -> Json:
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def said(text: str, *calls: Json) -> Json:
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


def result(id: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": text}


RUN = Run(
    "run",
    "",
    "",
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Find the owner."},
        said("", call("same"), call("same")),
        result("same", "owner_id OWNER_A " + "filler " * 60),
        result("same", "badge_no BADGE_7 " + "filler " * 60),
        said("It is BADGE_7 of OWNER_A."),
    ],
)


def test_every_call_gets_an_id_of_its_own(bench: SimpleNamespace) -> None:
    sent = bench.transcripts.Sent(RUN.messages)
    calls = [each["id"] for each in sent.messages[2]["tool_calls"]]
    assert len(set(calls)) == 2
    assert [message["tool_call_id"] for message in sent.messages[3:5]] == calls
    assert RUN.messages[3]["tool_call_id"] == "same"
    assert sent.outside(5) == [0, 1]
    assert sent.complete(sent.messages) == {3, 4}
    cut = {**sent.messages[4], "content": "badge_no"}
    assert sent.complete([*sent.messages[:4], cut]) == {3}
    assert sent.has_task(sent.messages)
    assert not sent.has_task(sent.messages[2:])


@pytest.mark.parametrize(
    ("messages", "number"),
    [
        ([said("", call("a")), result("a", "x")], 0),
        ([said("", call("a"), call("b")), result("b", "x")], 1),
        ([result("a", "x")], 1),
        ([result("a", "x"), said("", call("a"))], 2),
        ([said("", call("a")), result("a", "x"), result("a", "x")], 1),
    ],
)
def test_orphans_are_counted_on_both_sides(
    bench: SimpleNamespace, messages: list[Json], number: int
) -> None:
    assert bench.transcripts.orphans(messages) == number


ADAPTER = """
import socket
def make(variant):
    def shorten(messages, tokens):
        if variant == "fails":
            raise ValueError("cannot")
        if variant == "connects":
            socket.create_connection(("127.0.0.1", 1))
        kept = [m for m in messages if m["role"] != "tool"]
        return {"messages": kept, "text": "short"} if variant == "text" else kept
    return shorten
"""


@pytest.fixture
def peer(bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a peer whose adapter is the one above."""
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "with_made.py").write_text(ADAPTER)
    worker = tmp_path / "worker.py"
    worker.write_text((BENCH / "peers" / "worker.py").read_text())
    monkeypatch.setattr(bench.driving, "WORKER", worker)

    def make(variant: str, adapter: str = "with_made") -> Any:
        return bench.catalogue.Peer("made", "made", (), adapter, variant, "")

    return make


def drive(bench: SimpleNamespace, peer: Any) -> Any:
    return bench.driving.drive(Path(sys.executable), peer, [RUN], 100, lambda _: None)


def test_a_peer_is_driven_and_scored(bench: SimpleNamespace, peer: Any) -> None:
    score = drive(bench, peer(""))
    # Only the last call's history exceeds the budget; it repeats a token of each result.
    assert (score.runs[0].cases[0].recall.events, score.runs[0].cases[0].recall.result_recall) == (
        2,
        0,
    )
    assert (len(score.sizes), score.beyond, score.with_orphans, score.orphans) == (1, 0, 1, 2)
    assert (score.without_task, score.failed) == (0, 0)
    assert len(score.milliseconds) == 1
    assert drive(bench, peer("text")).orphans == 0


def test_a_failing_peer_leaves_the_history_as_it_was(bench: SimpleNamespace, peer: Any) -> None:
    for variant, problem in (("fails", "ValueError: cannot"), ("connects", "ConnectionRefused")):
        score = drive(bench, peer(variant))
        assert score.failed == 1
        assert score.problem.startswith(problem)
        assert (score.runs[0].cases[0].recall.result_recall, score.beyond) == (1, 1)


def test_a_peer_that_does_not_start_says_why(bench: SimpleNamespace, peer: Any) -> None:
    with pytest.raises(bench.environments.Unavailable, match=r"does not start.*no_such_adapter"):
        drive(bench, peer("", "no_such_adapter"))


def test_every_requirement_is_pinned(bench: SimpleNamespace) -> None:
    for each in bench.catalogue.PEERS:
        assert all("==" in requirement for requirement in each.requirements)
        assert (BENCH / "peers" / "libraries" / f"{each.adapter}.py").is_file()


def test_tables_replace_what_stands_between_their_marks(bench: SimpleNamespace) -> None:
    page = "a\n<!-- table: one -->\nold\n<!-- end -->\nb\n<!-- table: two -->\n<!-- end -->\n"
    written = program("selectors").replaced(page, {"one": "new \\1"})
    assert written == (
        "a\n<!-- table: one -->\n\nnew \\1\n\n<!-- end -->\nb\n<!-- table: two -->\n<!-- end -->\n"
    )


def test_the_documents_tables_are_those_there_are(bench: SimpleNamespace) -> None:
    page = (BENCH.parent / "docs" / "evaluation.md").read_text()
    for name in ("targets", "recall", "ages", "costs", "spent", "differences", "peers"):
        assert page.count(f"<!-- table: {name} -->\n\n|") == 1, name


def program(folder: str) -> ModuleType:
    """A folder's `__main__`, without running it."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"bench_{folder}", BENCH / folder / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_anthropics_rule_clears_all_but_the_newest_results(bench: SimpleNamespace) -> None:
    rule = import_module("libraries.with_clear_rule")
    messages: list[Json] = [{"role": "user", "content": "Find it."}]
    for number in range(5):
        messages += [said("", call(f"c{number}")), result(f"c{number}", f"R_{number} " + "x " * 99)]
    kept = rule.make("")(messages, 100)
    left = [m["content"][:3] for m in kept if m["role"] == "tool"]
    assert left == [rule.PLACEHOLDER[:3]] * 2 + ["R_2", "R_3", "R_4"]
    assert [m for m in kept if m["role"] != "tool"] == [m for m in messages if m["role"] != "tool"]
    size = bench.driving.counter_for(None).message
    budget = sum(map(size, messages)) - 50
    fitted = rule.make("fitted")(messages, budget)
    assert sum(map(size, fitted)) <= budget
    assert [m["content"][:3] for m in fitted if m["role"] == "tool"].count("[to") == 1


def test_a_stub_is_nothing_of_a_result_and_an_excerpt_is(bench: SimpleNamespace) -> None:
    sent = bench.transcripts.Sent(RUN.messages)
    stub, cut = (dict(message) for message in sent.messages[3:5])
    stub["content"], cut["content"] = "[cleared]", "badge_no BADGE_7 filler\n[more was left out]"
    assert sent.left([*sent.messages[:3], stub, cut]) == {4}


def test_a_peers_run_is_billed_and_closed_in_a_loop(bench: SimpleNamespace, peer: Any) -> None:
    (run,) = drive(bench, peer("")).runs
    loop = run.cases[0].loop
    assert run.cases[0].bills["openai"].tokens == sum(run.cases[0].calls)
    # Its results are gone before the last step: both are fetched again once, and gone again.
    assert (loop.steps, loop.refetched, loop.without) == (2, 2, 1)


def test_rows_replace_their_like_and_new_ones_follow_the_last_of_their_budget(
    bench: SimpleNamespace,
) -> None:
    spec = spec_from_file_location("selectors_main", BENCH / "selectors" / "__main__.py")
    assert spec and spec.loader
    main = module_from_spec(spec)
    spec.loader.exec_module(main)
    head = ["| B | policy | cost |", "| --- | --- | --- |"]
    old = [*head, "| 6K | `a` | 1 |", "| 6K | `b` | 2 |", "| 12K | `a` | 3 |"]
    new = [*head, "| 6K | `b` | 5 |", "| 6K | `c` | 6 |"]
    page = "\n".join(["<!-- table: costs -->", "", *old, "", main.END, "after"])
    made = main.replaced(page, {"costs": "\n".join(new)}, rows=True).splitlines()
    rows = [line for line in made if line.startswith("|")]
    assert rows == [*head, "| 6K | `a` | 1 |", *new[2:], "| 12K | `a` | 3 |"]
    assert made[-1] == "after"
