"""Which results answer a query: by the query's words and values they hold, then by meaning."""

import re
from typing import NamedTuple

from engine.history.history import History
from engine.models.embeddings import Embedder
from engine.plan.greedy import cosines
from engine.plan.relevance import Relevance
from engine.plan.retained import TextOf

_WORD = re.compile(r"[A-Za-z0-9_.\-]{3,}")


class Match(NamedTuple):
    """A result that answers a query, the share of the query's words it holds, and its score."""

    result: int
    held: float
    score: float


def search_results(
    history: History, query: str, embedder: Embedder, text_of: TextOf
) -> list[Match]:
    """Every result that matches at all, best first.

    The score is the share of the query's words the result's text holds plus its cosine to the
    query; of equal scores the newer result comes first.
    """
    words = {word.lower() for word in _WORD.findall(query)}
    relevance = Relevance(history, embedder, text_of, task_share=0.0)
    relevance()
    count = len(history.results)
    meaning = [0.0] * count
    if not relevance.warning:
        meaning = cosines(history.vectors.matrix(count), embedder.embed([query])[0]).tolist()
    scored = []
    for result in range(count):
        text = text_of(history.results.message[result]).lower()
        held = sum(word in text for word in words) / len(words) if words else 0.0
        if held or meaning[result] > 0:
            scored.append(Match(result, held, held + max(0.0, meaning[result])))
    return sorted(scored, key=lambda one: (-one.score, -one.result))
