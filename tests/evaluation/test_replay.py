"""`contextrender replay` reads runs and measures them, also with agent defaults."""

import gzip
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.bootstrap import Bootstrap
from contextrender_bridge.evaluation.cases import Case, cases_of
from contextrender_bridge.evaluation.demo import SHIPPED
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.report import Report
from contextrender_bridge.evaluation.runs import Run, read_runs
from contextrender_bridge.evaluation.scores import Prompt, RunScore, Turn, turns_of
from contextrender_bridge.evaluation.workers import replay_runs

from tests.engine.plan.test_filling import write as large_write
from tests.engine.policies.test_policies import agent_run
from tests.engine.policies.test_policies import turns_of as sizes_of
from tests.support.command import PROCESS, contextrender, printed
from tests.support.transcripts import assistant, step, user

Write = Callable[..., Path]

CASES = [Case(p, budget) for p in ("contextrender", "prune", "full") for budget in (6000,)]
LINE = {"id": "one", "source": "here", "model": "gpt-4o", "messages": []}


def figures_of(scores: list[RunScore]) -> Json:
    return Report(Bootstrap(scores, 20), [], None).to_json()


MESSAGES: list[Json] = [
    {"role": "system", "content": "Be brief."},
    user("Find the owner."),
    *step("a", "look", "{}", "owner_id OWNER_A " + "filler " * 40),
    *step("b", "look", '{"id": "OWNER_A"}', "badge_no BADGE_7 " + "filler " * 40),
    assistant("It is BADGE_7 of OWNER_A."),
]
SMALL = Run("run", "test", "", MESSAGES)


@pytest.fixture(scope="module")
def shipped() -> Run:
    return read_runs([SHIPPED])[0]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*lines: object, name: str = "runs.jsonl") -> Path:
        path = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts), encoding="utf-8", errors="surrogateescape")
        return path

    return write


def test_runs_are_read_from_files_and_folders(tmp_path: Path, write: Write) -> None:
    write({**LINE, "id": "a"}, "", {**LINE, "id": "b"}, name="1.jsonl")
    line = json.dumps({"id": "c", "messages": [user("hi")], "more": 1})
    (tmp_path / "2.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    (tmp_path / "README.md").write_text("not runs")
    assert [run.id for run in read_runs([tmp_path])] == ["a", "b", "c"]
    assert [run.id for run in read_runs([tmp_path], limit=2)] == ["a", "b"]
    (run,) = read_runs([tmp_path / "2.jsonl.gz"])
    assert run == Run("c", "", "", [user("hi")])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "it is not JSON"),
        ("\udcff", "it is not UTF-8"),
        ([], "a run: Input should be a valid dictionary"),
        ({**LINE, "id": 7}, "a run: id Input should be a valid string"),
        ({"id": "x"}, "a run: messages Field required"),
        ({**LINE, "model": 7}, "a run: model Input should be a valid string"),
        ({**LINE, "messages": [user("a"), {"role": "x"}]}, "message 1: role must be one of"),
        (
            {**LINE, "messages": [{"role": "tool", "content": "x"}]},
            "message 0: a tool result needs",
        ),
    ],
)
def test_invalid_line_is_named(write: Write, line: object, problem: str) -> None:
    path = write(LINE, "", line)
    with pytest.raises(CommandError) as refused:
        read_runs([path])
    assert str(refused.value).startswith(f"{path}, line 3: {problem}")


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(json.dumps(LINE).encode())[:-12])
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(b"not gzip")
    for path in (cut, broken, tmp_path / "none.jsonl"):
        with pytest.raises(CommandError, match=f"{path} cannot be read"):
            read_runs([path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(CommandError, match="has no"):
        read_runs([tmp_path / "empty"])


def test_figures_of_a_small_run() -> None:
    prompts_by_turn: list[tuple[int, Prompt]] = []

    def watch(_: Case, turn: Turn, prompt: Prompt) -> None:
        prompts_by_turn.append((turn.number, prompt))

    (score,) = replay_run(SMALL, [Case("prune", 90)], NoEmbedder(), watch).cases
    assert [turn.position for turn in turns_of(SMALL)] == [2, 4, 6]
    assert [sorted(prompt.complete) for _, prompt in prompts_by_turn] == [[], [3], [5]]
    figures: Json = score.to_json()
    assert (figures["invocations"], figures["over_budget_invocations"]) == (3, 1)
    assert figures["events_by_age"] == {"<=3": 3, "4-10": 0, "11-25": 0, ">25": 0}
    assert figures["result_recall"] == pytest.approx(2 / 3)
    assert figures["value_recall"] == 1
    counter = counter_for(None)
    outside = sum(counter.message(message) for message in SMALL.messages[:2])
    assert figures["tokens_unbudgeted"] == 3 * outside
    full = [0, 0]
    for messages in (SMALL.messages[2:4], SMALL.messages[2:6]):
        texts = sum(counter.message(m) for m in messages if m["role"] == "tool")
        full.append(
            texts + sum(counter.call(m["tool_calls"][0]) for m in messages if m["role"] != "tool")
        )
    assert figures["tokens_full"] == sum(full)


@pytest.mark.slow
def test_figures_are_independent_of_worker_count(shipped: Run) -> None:
    runs = [Run(f"r{n}", "", "", shipped.messages[: 30 + n]) for n in range(3)]
    assert figures_of(replay_runs(runs, CASES, 1)) == figures_of(replay_runs(runs, CASES, 2))


def test_replay_prints_tables_and_writes_json(tmp_path: Path, write: Write) -> None:
    path = write(*({"id": id, "messages": SMALL.messages} for id in ("a", "b", "c")))
    out = tmp_path / "out.json"
    arguments = ["--policy", "prune,full,prune", "--budget", "90,300", "--limit", "2"]
    process = contextrender("replay", path, *arguments, "--json", out)
    assert process.returncode == 0
    assert "Replaying model calls: 24 of 24" in process.stderr
    assert "Later-Used Recall" in process.stdout
    assert "Runs: 2." in process.stdout
    figures = json.loads(out.read_text())
    assert [(case["policy"], case["budget"]) for case in figures["cases"]] == [
        ("prune", 90),
        ("prune", 300),
        ("full", 90),
        ("full", 300),
    ]
    first = figures["cases"][0]
    assert (first["runs"], first["invocations"], first["events"]) == (2, 6, 6)
    assert set(first["result_recall_by_age"]) == {"<=3", "4-10", "11-25", ">25"}
    assert [run["id"] for run in first["per_run"]] == ["a", "b"]
    assert sum(run["tokens_rendered"] for run in first["per_run"]) == first["tokens_rendered"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policy", "best"], "no policy 'best'; there are contextrender,"),
        (["--policy", ","], "--policy and --budget need at least one"),
        (["--budget", "12"], "budget must be at least"),
        (["--budget", "many"], "--budget must be whole numbers"),
        (["--json", "/nowhere/out.json"], "/nowhere/out.json cannot be written"),
        (["--policy", "prune:W"], "a policy's parameters must be name=number"),
        (["--compare", "prune", "best"], "no policy 'best'"),
    ],
)
def test_invalid_option_is_one_sentence(write: Write, arguments: list[str], sentence: str) -> None:
    path = write({"id": "a", "messages": SMALL.messages})
    assert f"contextrender: {sentence}" in printed("replay", path, *arguments, status=1)


@pytest.mark.slow
def test_ctrl_c_stops_replay_without_output(write: Write, shipped: Run) -> None:
    path = write(*({"id": f"r{n}", "messages": shipped.messages} for n in range(40)))
    command = [*PROCESS, "replay", str(path), "--workers", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "Replaying model calls" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        output = process.stderr.read()
        assert process.wait() == 130
        assert process.stdout.read() == ""
    assert "Traceback" not in output


LARGE_WRITE_RUN = [*agent_run(8), *large_write(5_200), assistant("Done.")]


def last_prompt(policy: str, messages: list[Json], times: list[float] | None = None) -> list[Json]:
    """Return the prompt before the last recorded answer, in a closed loop."""
    prompts: list[list[Json]] = []

    def watch(_: Case, turn: Turn, prompt: Prompt) -> None:
        prompts.append([dict(message) for message in prompt.messages])

    run = Run("run", "", "", messages, times=times or [])
    score = replay_run(run, cases_of(policy, "6000"), NoEmbedder(), watch, closed_loop=True)
    assert score.cases[0].loop
    return prompts[-1]


def test_agent_defaults_show_the_newest_step() -> None:
    assert last_prompt("prune", LARGE_WRITE_RUN)[-1] != LARGE_WRITE_RUN[-2]
    assert last_prompt("prune:agent_defaults=1", LARGE_WRITE_RUN)[-1] == LARGE_WRITE_RUN[-2]


@pytest.mark.slow
def test_prompt_is_rebuilt_after_long_pause() -> None:
    messages = agent_run(60)
    size = sizes_of(messages)[-1]
    messages = [*messages[:size], assistant("Done.")]
    pauses = [
        last_prompt("contextrender_cache_aware", messages, [0.0] * (size - 2) + 3 * [pause])
        for pause in (0.0, 60.0, 7_200.0)
    ]
    assert pauses[0] == pauses[1] != pauses[2]


@pytest.mark.slow
def test_demo_replays_its_run_and_explains_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTXGRAPH_MODEL", "must-not/be-called")
    monkeypatch.setenv("CONTEXTRENDER_URL", "http://127.0.0.1:9")
    process = contextrender("demo")
    assert process.returncode == 0
    for task in ("Replaying model calls: 192 of 192", "Explaining one call: 44 of 44"):
        assert task in process.stderr
    for words in (
        "checkout-latency",
        "contextrender_cache_aware is for live agents",
        "prune",
        "full",
        "One call explained: call ",
        "omitted: dropped when the prompt was rebuilt at call ",
        "Other policies",
        "After 1 compaction by the agent",
        "shown within 24,000 tokens",
    ):
        assert words in process.stdout
