"""How results rank: semantic relevance, greedy selection under a budget, and search.

(`docs/method.md`, Relevance and Selection)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import Vectors, unit
from contextrender_bridge.engine.history.growable_arrays import Vectors as Vector
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import TextOf
from contextrender_bridge.engine.models.embeddings import Embedder, embed_once
from contextrender_bridge.engine.models.litellm_embedder import EmbeddingUnavailable

Floats = NDArray[np.float64]

_DECIMALS = 6


@dataclass(slots=True, frozen=True)
class Greedy:
    """What was taken, in order; what it used; final scores.

    `scores` holds the last score of every candidate, those not taken included.
    """

    selected: list[int]
    tokens: int
    scores: Floats


def cosines(rows: Vector, vector: Vector) -> Floats:
    """Cosines of unit rows (n, d) with one unit vector (d,), to 6 decimals.

    Each row is summed in the same order wherever it stands, so equal texts tie exactly; BLAS (`@`)
    does not promise that. Rounding hides what is left of the hardware.
    """
    if rows.shape[1] != vector.shape[0]:
        return np.zeros(len(rows))
    exact: Vector = np.einsum("ij,j->i", rows, vector)
    return np.round(exact.astype(np.float64), _DECIMALS)


def cosines_among(rows: Vector, row: int) -> Floats:
    """The same with one of the rows, by number."""
    return cosines(rows, rows[row])


def select_greedily(
    scores: Floats,
    tokens: NDArray[np.int64],
    free: int,
    cosines_to: Callable[[int], Floats],
    redundancy_penalty: float,
) -> Greedy:
    """Takes, while anything fits `free` tokens, the result of highest `U - penalty * redundancy`.

    `scores` are U (n,), `tokens` what each costs (n,), `cosines_to(i)` every result's cosine to
    result i (n,). A result's redundancy is its highest cosine to those taken, at least 0. There is
    no minimum score, what does not fit is skipped, and of equal scores the older is taken.
    """
    redundancy = np.zeros(len(scores))
    current = scores.astype(np.float64)
    last = current.copy()
    available = tokens <= free
    selected: list[int] = []
    used = 0
    while available.any():
        best = int(np.argmax(np.where(available, current, -np.inf)))
        last[best] = current[best]
        selected.append(best)
        used += int(tokens[best])
        available[best] = False
        available &= tokens <= free - used
        if redundancy_penalty and available.any():
            np.maximum(redundancy, cosines_to(best), out=redundancy)
            current = scores - redundancy_penalty * redundancy
            np.copyto(last, current, where=available)
    return Greedy(selected, used, last)


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
    embedder: Callable[[], Embedder]
    text_of: TextOf
    task_share: float
    fresh: dict[int, Vectors] = field(default_factory=dict)
    warning: str = ""
    embedded: bool = False
    embedded_tokens: int = 0

    def __call__(self, task_share: float | None = None) -> Floats:
        """s of every result, shape (n,), each in [0, 1]; with another share of x, if given."""
        share = self.task_share if task_share is None else task_share
        history, table, embedder = self.history, self.history.vectors, self.embedder()
        count = len(history.results.message)
        table.use_model(embedder.name)
        missing = table.missing_vectors(count)
        task = table.task if history.first_user >= 0 else None
        asked = [self._latest_text()]
        first = self._text(history.first_user) if task is None else ""
        if task is None:
            asked.append(first[:TASK_CHARACTERS])
        texts = [self._text(history.results.message[result]) for result in missing]
        asked += [text[:RESULT_CHARACTERS] for text in texts]
        try:
            rows, pays = embed_once(embedder, asked)
        except EmbeddingUnavailable as problem:
            self.warning = f"relevance is 0: {problem}"
            return np.zeros(count)
        self.embedded = True
        if pays:
            self.embedded_tokens += self._tokens(missing, texts, first)
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

    def _tokens(self, results: Sequence[int], texts: Sequence[str], task: str) -> int:
        history = self.history
        latest = {history.last_user, history.last_assistant} - {-1}
        total = sum(history.text_tokens[message] for message in latest)
        if task:
            total += _part(history.text_tokens[history.first_user], task, TASK_CHARACTERS)
        for result, text in zip(results, texts, strict=True):
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
    relevance = Relevance(history, lambda: embedder, text_of, task_share=0.0)
    relevance()
    count = len(history.results.message)
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
