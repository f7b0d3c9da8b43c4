"""The working set: bounded, least recently used first, and never the only copy."""

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
