"""Summaries without a model: written by a script, kept in memory."""

from collections.abc import Callable

from contextrender_bridge.base.usage import Usage

from engine.models.summaries import Summaries, SummariesInMemory, SummaryFailed, SummaryStore, Way
from engine.text.tokens import counter_for

MODEL = "scripted"


class Script:
    """Writes summaries as `text_of(way, earlier, text)` says and remembers what it was asked."""

    def __init__(self, text_of: Callable[[Way, str, str], str] | None = None) -> None:
        self.text_of = text_of or (lambda way, earlier, text: f"{earlier}+{len(text)}".strip("+"))
        self.asked: list[tuple[Way, str, str]] = []
        self.fails = False

    def __call__(self, way: Way, earlier: str, text: str) -> tuple[str, Usage]:
        self.asked.append((way, earlier, text))
        if self.fails:
            raise SummaryFailed("the script says no", Usage(fresh=7))
        written = counter_for(None).cut(self.text_of(way, earlier, text), way.limit)
        return written, Usage(fresh=100, output=10)


def scripted(
    script: Script | None = None, store: SummaryStore | None = None, guideline: str = "Keep ids."
) -> Summaries:
    """What one rendering needs of a script."""
    return Summaries(MODEL, store or SummariesInMemory(), script or Script(), guideline)


def filling(way: Way, earlier: str, text: str) -> str:
    """As long a summary as its limit allows."""
    return "noted " * way.limit
