"""Where an agent compacted its history: what was before, its summary, and what it did then."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from contextrender_bridge.base.wire import Json

from evaluation.runs import Run


@dataclass(frozen=True, slots=True)
class Compaction:
    """A whole history up to a compaction, what the agent went on with, and what it did then."""

    model: str
    before: list[Json]
    summary: list[Json]
    after: list[Json]


def compactions_of(runs: Sequence[Run]) -> list[Compaction]:
    """The compactions between runs that go on after one another (`Run.continues`).

    A fork of a session has copies of those before it: each counts once.
    """
    known = {run.id: run for run in runs}
    wholes: dict[str, list[Json]] = {}
    seen: set[str] = set()
    found: list[Compaction] = []
    for run in _in_order(runs, known):
        before = wholes.get(run.continues)
        if before is None:
            wholes[run.id] = run.messages
            continue
        start = _goes_on_at(run.messages, before)
        summary, after = run.messages[:start], run.messages[start:]
        wholes[run.id] = before + after
        if after and (told := repr(summary)) not in seen:
            seen.add(told)
            found.append(Compaction(run.model, before, summary, after))
    return found


def _in_order(runs: Sequence[Run], known: Mapping[str, Run]) -> Iterator[Run]:
    """Each behind the one that it continues; who continues itself, or a later one, begins anew."""
    told: set[str] = set()
    for run in runs:
        chain: list[Run] = []
        link: Run | None = run
        while link is not None and link.id not in told:
            told.add(link.id)
            chain.append(link)
            link = known.get(link.continues)
        yield from reversed(chain)


def _goes_on_at(messages: Sequence[Json], before: Sequence[Json]) -> int:
    """The first message behind the summary: an answer that is none kept from before."""
    kept = {id(message) for message in before} | {_said(message) for message in before}
    for position, message in enumerate(messages):
        if message["role"] == "assistant" and not {id(message), _said(message)} & kept:
            return position
    return len(messages)


def _said(message: Json) -> str:
    return repr((message.get("content"), message.get("tool_calls")))
