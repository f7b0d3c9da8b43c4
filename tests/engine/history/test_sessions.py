"""Branch matching against a model that stores full histories."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from contextrender_bridge.engine.history.branch_matching import (
    ROOT,
    BranchInfo,
    BranchMatch,
    match_branch,
)
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.text.transcript import Json, digest_after
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import COUNTER, modest
from tests.support.transcripts import assistant, call, user

A, B, C = user("a"), user("b"), assistant("a", *(call(id, "f", "a") for id in "xy"))


class Recorder:
    """A session stored as branches and as full histories."""

    def __init__(self) -> None:
        self.branches: list[BranchInfo] = []
        self.lines: list[list[Json]] = []
        self.head = 0

    def history_of(self, branch: int) -> History:
        history = History()
        history.extend(self.lines[branch], COUNTER)
        return history

    def place(self, messages: Sequence[Json], offset: int = 0, prefix: str = "") -> BranchMatch:
        digests: list[str] = []
        for message in messages:
            digests.append(digest_after(digests[-1] if digests else prefix, message))
        return match_branch(self.branches, self.head, offset, prefix, digests, self.history_of)

    def record(self, messages: list[Json], offset: int = 0, prefix: str = "") -> BranchMatch:
        """Record a history as the walkers do; return the branch match before."""
        match = self.place(messages[offset:], offset, prefix)
        new_messages = messages[match.matched :]
        branch = match.branch
        if not new_messages:
            return match
        if branch == ROOT or match.matched < self.branches[branch].messages:
            number = len(self.branches)
            shared = self.history_of(branch).first_events[match.matched] if branch != ROOT else 0
            first = digest(messages, match.matched + 1)
            self.branches.append(
                BranchInfo(number, branch, match.matched, shared, first_digest=first)
            )
            self.lines.append(messages[: match.matched])
            branch = number
        self.lines[branch] += new_messages
        history = self.history_of(branch)
        self.branches[branch] = replace(
            self.branches[branch],
            messages=len(history),
            events=history.events,
            digest=history.digest,
        )
        self.head = branch
        return match


def digest(messages: Sequence[Json], count: int) -> str:
    current = ""
    for message in messages[:count]:
        current = digest_after(current, message)
    return current


def check_place(recorder: Recorder, messages: list[Json], match: BranchMatch) -> None:
    """Assert that the match is the longest common prefix, on a branch that has it."""
    shared = [
        [*takewhile(lambda pair: pair[0] == pair[1], zip(messages, line, strict=False))]
        for line in recorder.lines
    ]
    longest = max(map(len, shared), default=0)
    assert match.matched == longest
    if longest == 0:
        assert match.branch == ROOT
    else:
        assert recorder.lines[match.branch][:longest] == messages[:longest]
        ends = [line for line in recorder.lines if line == messages[:longest]]
        assert not ends or recorder.lines[match.branch] in ends


@given(st.data())
@settings(modest, max_examples=30)
def test_history_matches_longest_common_prefix(data: st.DataObject) -> None:
    recorder = Recorder()
    replies: list[list[Json]] = [[]]
    suffixes = st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3)
    for _ in range(data.draw(st.integers(1, 9), label="calls")):
        earlier = data.draw(st.sampled_from(replies), label="reply to continue from")
        kept_count = data.draw(st.integers(0, len(earlier)), label="kept messages")
        incremental = data.draw(st.booleans(), label="sends an offset")
        history = earlier[:kept_count] + data.draw(
            st.one_of(suffixes, st.just([])), label="new messages"
        )
        if not history:
            continue
        offset = data.draw(st.sampled_from([0, kept_count]), label="offset") if incremental else 0
        prefix = digest(earlier, offset)
        check_place(recorder, history, recorder.place(history[offset:], offset, prefix))
        recorder.record(history, offset, prefix)
        before = list(recorder.branches)
        repeated = recorder.record(history, offset, prefix)
        assert (repeated.matched, recorder.branches) == (len(history), before)
        assert recorder.lines[repeated.branch][: len(history)] == history
        replies.append(history)
    assert len({digest(line, len(line)) for line in recorder.lines}) == len(recorder.lines)
