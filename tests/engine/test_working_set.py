"""The working set: bounded, least recently used first, and never the only copy."""

import gc
import threading
import tracemalloc

import pytest

from engine.history.branches import BranchInfo
from engine.history.working_set import SessionState, WorkingSet
from engine.text.transcript import Json
from tests.support.strategies import recorded, snapshot


def transcript(results: int, size: int = 400) -> list[Json]:
    messages: list[Json] = [{"role": "user", "content": "go"}]
    for number in range(results):
        call = {"name": "read", "arguments": f'{{"id": "item_{number}"}}'}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            },
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": f"Item_{number + 1} " + "some prose in between " * (size // 22),
            },
        ]
    return messages


def state(results: int, head: int = 0, numbers: tuple[int, ...] = (0,)) -> SessionState:
    histories = {number: recorded(transcript(results)) for number in numbers}
    branches = [BranchInfo(number) for number in range(max(numbers, default=0) + 1)]
    return SessionState(1.0, 1, head, branches, histories)


def test_a_state_is_found_under_its_owner_and_session_only() -> None:
    kept = state(1)
    held = WorkingSet(1_000_000)
    held.put(("ann", "s"), kept)
    assert held.get(("ann", "s")) is kept
    assert held.get(("bob", "s")) is None
    assert held.get(("ann", "t")) is None
    assert held.nbytes == kept.nbytes > 0


def test_the_least_recently_used_goes_first() -> None:
    states = {name: state(3) for name in "abcd"}
    size = states["a"].nbytes
    held = WorkingSet(3 * size + size // 2)
    for name in "abc":
        held.put(("o", name), states[name])
    assert held.get(("o", "a")) is states["a"]
    held.put(("o", "d"), states["d"])
    assert held.get(("o", "b")) is None
    assert [name for name in "abcd" if held.get(("o", name))] == ["a", "c", "d"]
    assert held.nbytes == 3 * size <= held.limit


def test_a_session_over_the_limit_keeps_its_structure_and_lets_go_of_texts() -> None:
    large = state(30)
    structure = large.nbytes - large.histories[0].text_bytes
    held = WorkingSet(structure + 100)
    held.put(("o", "small"), state(1))
    held.put(("o", "large"), large)
    assert held.get(("o", "small")) is None
    assert held.get(("o", "large")) is large
    assert large.histories[0].messages == [None] * len(large.histories[0])
    assert held.nbytes == large.nbytes == structure
    bare = {"messages": 0, "text_bytes": 0}
    assert snapshot(large.histories[0]) | bare == snapshot(recorded(transcript(30))) | bare


def test_over_the_limit_only_the_head_branch_stays() -> None:
    forked = state(20, head=1, numbers=(0, 1))
    held = WorkingSet(forked.nbytes // 4)
    held.put(("o", "s"), forked)
    assert [*forked.histories] == [1]


def test_a_session_far_over_the_limit_is_not_kept() -> None:
    held = WorkingSet(1_000)
    held.put(("o", "s"), state(50))
    assert held.get(("o", "s")) is None
    assert held.nbytes == 0


def test_it_is_safe_between_threads() -> None:
    held = WorkingSet(6 * state(2).nbytes)
    failures: list[BaseException] = []

    def work(owner: str) -> None:
        try:
            mine = [state(2) for _ in range(4)]
            for turn in range(300):
                held.put((owner, str(turn % 4)), mine[turn % 4])
                held.get((owner, str(turn % 3)))
                if turn % 7 == 0:
                    held.drop((owner, str(turn % 4)))
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert 0 <= held.nbytes <= held.limit
    kept = [held.get((str(n), str(k))) for n in range(6) for k in range(4)]
    assert held.nbytes == sum(one.nbytes for one in kept if one)


@pytest.mark.parametrize("size", [100, 2_000])
def test_the_bytes_said_are_near_the_bytes_held(size: int) -> None:
    recorded(transcript(2))
    gc.collect()
    tracemalloc.start()
    history = recorded(transcript(400, size))
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    assert 0.7 < history.nbytes / held < 1.4
    history.forget_texts()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 < history.nbytes / held < 3.0
