"""Semantic relevance of each result to what the agent does now (`docs/method.md`, Relevance)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.history.history import History
from engine.history.vectors import Vectors, unit
from engine.models.embeddings import Embedder, embed_once
from engine.models.litellm_embedder import EmbeddingUnavailable
from engine.plan.greedy import Floats, cosines
from engine.plan.retained import TextOf

RESULT_CHARACTERS = 8_000
TASK_CHARACTERS = 2_000


@dataclass(slots=True)
class Relevance:
    """Computes s on demand, embedding in one batch whatever has no vector of this model yet.

    Afterwards `fresh` holds the vectors made, which the history's table keeps as unsaved, and
    `warning` is set when the embedder was unavailable and every s is 0. `embedded` says
    that it was asked successfully, `embedded_tokens` estimates the tokens that it took and that no
    other request pays for, in proportion where a text was cut.
    """

    history: History
    embedder: Embedder
    text_of: TextOf
    task_share: float
    fresh: dict[int, Vectors] = field(default_factory=dict)
    warning: str = ""
    embedded: bool = False
    embedded_tokens: int = 0

    def __call__(self, task_share: float | None = None) -> Floats:
        """s of every result, shape (n,), each in [0, 1]; with another share of x, if given."""
        share = self.task_share if task_share is None else task_share
        history, table = self.history, self.history.vectors
        count = len(history.results)
        table.use_model(self.embedder.name)
        missing = table.missing(count)
        task = table.task if history.first_user >= 0 else None
        texts = [self._latest_text()]
        if task is None:
            texts.append(self._text(history.first_user)[:TASK_CHARACTERS])
        texts += [self._text(history.results.message[r])[:RESULT_CHARACTERS] for r in missing]
        try:
            rows, pays = embed_once(self.embedder, texts)
        except EmbeddingUnavailable as problem:
            self.warning = f"relevance is 0: {problem}"
            return np.zeros(count)
        self.embedded = True
        if pays:
            self.embedded_tokens += self._tokens(missing, task is None)
        if task is None:
            task = rows[1].copy()  # a view would keep all rows in memory
        if history.first_user >= 0:
            table.task = task
        for result, row in zip(missing, rows[len(rows) - len(missing) :], strict=True):
            table.put(result, row)
            table.unsaved.add(result)
            self.fresh[result] = row
        query = unit(share * task + (1 - share) * rows[0])
        return np.maximum(cosines(table.matrix(count), query), 0.0)

    def _tokens(self, results: Sequence[int], with_task: bool) -> int:
        history = self.history
        latest = {history.last_user, history.last_assistant} - {-1}
        total = sum(history.text_tokens[message] for message in latest)
        if with_task and history.first_user >= 0:
            tokens = history.text_tokens[history.first_user]
            total += _part(tokens, self._text(history.first_user), TASK_CHARACTERS)
        for result in results:
            text = self._text(history.results.message[result])
            total += _part(history.results.tokens[result], text, RESULT_CHARACTERS)
        return total

    def _latest_text(self) -> str:
        latest = (self.history.last_user, self.history.last_assistant)
        return "\n".join(text for text in map(self._text, latest) if text)

    def _text(self, message: int) -> str:
        return self.text_of(message) if message >= 0 else ""


def _part(tokens: int, text: str, characters: int) -> int:
    """Tokens of a text's first characters, in proportion."""
    return round(tokens * min(1.0, characters / max(len(text), 1)))
