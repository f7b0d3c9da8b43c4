"""A selection is restored exactly from its edges, which store changes from the previous call."""

import json

import pytest
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.parameters import AUTO
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.selection_chain import EdgeTrail
from contextrender_bridge.engine.plan.selection_edges import CallEdge, CallEdges, pieces_of, text_of
from contextrender_bridge.engine.text.tokens import content_text
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.plan.test_auto_budget import reading
from tests.engine.plan.test_filling import write
from tests.engine.policies.test_policies import agent_run, turns_of
from tests.engine.policies.test_policies_scores import talk
from tests.support.strategies import COUNTER, modest, render, transcripts

LARGE = [*agent_run(15), *write(1_500), *agent_run(12, seed=3)[1:], *write(4_000), *agent_run(9)]
RESTORING = reading(34, texts={29: "function_2_77 again"})
LARGER = [*reading(24), *write(4_000), *reading(8, lines=900)[1:], *agent_run(9)[1:]]


def own_texts(messages: list[Json], history: History) -> dict[int, str]:
    """Return the texts of events by number."""
    texts: dict[int, str] = {}
    for message, first in zip(messages, history.first_events, strict=False):
        texts[first] = content_text(message.get("content"))
        for number, call in enumerate(message.get("tool_calls") or (), first + 1):
            texts[number] = str(call.get("function", {}).get("arguments"))
    return texts


def check_trail(
    messages: list[Json], budget: int, policy: str, *, agent_defaults: bool = False
) -> int:
    """Restore every call from its edges, through JSON; return the number of edges."""
    history, trail = History(), EdgeTrail()
    before: Selection | None = None
    count = 0
    for size in turns_of(messages):
        history.extend(messages[len(history) : size], COUNTER)
        rendered, _ = render(
            messages[:size], budget, policy, history=history, agent_defaults=agent_defaults
        )
        now = rendered.selection
        texts = own_texts(messages, history)
        call_edges = CallEdges.since(before, now, history, texts.__getitem__)
        stored_edges = json.loads(
            json.dumps([call_edges.fields(), [[*edge] for edge in call_edges.edges]])
        )
        edges = CallEdges.of(stored_edges[0], (CallEdge(*edge) for edge in stored_edges[1]))
        assert edges == call_edges
        trail.follow(edges.edges)
        assert {history.results.event[result] for result in now.complete} <= trail.complete
        read = trail.selection(size, edges, history, texts.__getitem__)
        alone = EdgeTrail()
        alone.follow(trail.edges())
        assert alone.selection(size, edges, history, texts.__getitem__) == read
        assert sorted(read.complete) == sorted(now.complete)
        for name in (
            "excerpts",
            "next_excerpts",
            "restored",
            "arguments",
            "is_over",
            "rebuilt",
            "breakpoints",
        ):
            assert getattr(read, name) == getattr(now, name), name
        assert (read.budget, read.text) == (now.budget, now.text)
        before = now
        count += len(edges.edges)
    return count


@pytest.mark.parametrize(
    ("messages", "budget"),
    [
        (LARGE, 1_500),
        (LARGE, 4_000),
        (RESTORING, 24_000),
        (RESTORING, AUTO),
        (LARGER, AUTO),
        (talk(40), 1_000),
    ],
)
@pytest.mark.parametrize("policy", ["contextrender_cache_aware", "contextrender_excerpts"])
def test_selection_is_restored_from_edges(messages: list[Json], budget: int, policy: str) -> None:
    assert check_trail(messages, budget, policy)


@given(transcripts(), st.sampled_from([200, 700]))
@modest
def test_selection_of_any_policy_is_restored(messages: list[Json], budget: int) -> None:
    for policy in ("contextrender", "contextrender_cache_aware", "prune", "full"):
        check_trail(messages, budget, policy, agent_defaults=True)


@given(st.text(max_size=60), st.text(max_size=60), st.lists(st.integers(0, 70), max_size=3))
def test_pieces_restore_any_text(text: str, own_text: str, starts: list[int]) -> None:
    ranges = tuple(number for start in sorted(starts) for number in (start, 5))
    for known_ranges in ((), ranges):
        assert text_of(pieces_of(text, own_text, known_ranges), own_text)[0] == text
