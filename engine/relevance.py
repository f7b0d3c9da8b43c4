"""Semantic relevance of every result to what the agent is doing now (`docs/method.md`, Relevance)."""

from dataclasses import dataclass, field

import numpy as np

from engine.embeddings import Embedder, EmbeddingUnavailable
from engine.history import History
from engine.retained import TextOf
from engine.selection import Floats, cosines
from engine.vectors import Vectors, unit

RESULT_CHARACTERS = 8_000
TASK_CHARACTERS = 2_000


@dataclass(slots=True)
class Relevance:
    """Computes s on demand, embedding in one batch whatever has no vector of this model yet.

    Afterwards `fresh` holds the vectors made, for the caller to store, and `warning` is set when
    the embedder was unavailable and every s is 0.
    """

    history: History
    embedder: Embedder
    text_of: TextOf
    task_share: float
    fresh: dict[int, Vectors] = field(default_factory=dict)
    warning: str = ""

    def __call__(self) -> Floats:
        """s of every result, shape (n,), each in [0, 1]."""
        history, table = self.history, self.history.vectors
        count = len(history.results)
        table.use_model(self.embedder.name)
        missing = table.missing(count)
        texts = [self._latest_text()]
        if table.task is None:
            texts.append(self._text(history.first_user)[:TASK_CHARACTERS])
        texts += [self._text(history.results.message[r])[:RESULT_CHARACTERS] for r in missing]
        try:
            rows = self.embedder.embed(texts)
        except EmbeddingUnavailable as problem:
            self.warning = f"relevance is 0: {problem}"
            return np.zeros(count)
        if table.task is None:
            table.task = rows[1]
        for result, row in zip(missing, rows[len(rows) - len(missing) :], strict=True):
            table.put(result, row)
            self.fresh[result] = row
        query = unit(self.task_share * table.task + (1 - self.task_share) * rows[0])
        return np.maximum(cosines(table.matrix(count), query), 0.0)

    def _latest_text(self) -> str:
        latest = (self.history.last_user, self.history.last_assistant)
        return "\n".join(text for text in map(self._text, latest) if text)

    def _text(self, message: int) -> str:
        return self.text_of(message) if message >= 0 else ""
