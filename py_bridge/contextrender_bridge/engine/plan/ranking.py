"""The ranking of results: semantic relevance, greedy selection under a budget, and search.

(`docs/method.md`, Relevance and Selection)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import Vectors as Vector
from contextrender_bridge.engine.history.growable_arrays import normalize
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import TextsOf
from contextrender_bridge.engine.models.embeddings import Embedder, embed_once
from contextrender_bridge.engine.models.litellm_embedder import EmbeddingUnavailable

Floats = NDArray[np.float64]

_DECIMALS = 6
"""The decimals of cosines, so that equal texts tie on every machine (docs/method.md, Relevance)."""


@dataclass(slots=True, frozen=True)
class Greedy:
    """A greedy selection: the results in the order selected, and the sum of their tokens.

    `scores` has the score of every result, also of results that were not selected, as it was when
    the result was last considered.
    """

    selected: list[int]
    tokens: int
    scores: Floats


def cosines(rows: Vector, vector: Vector) -> Floats:
    """Return the cosines of unit rows (n, d) with one unit vector (d,), to `_DECIMALS` decimals.

    If the vector has another dimension than the rows, return 0 for each row.
    """
    if rows.shape[1] != vector.shape[0]:
        return np.zeros(len(rows))
    # `einsum` adds up all rows in the same order, so equal rows have exactly equal cosines. BLAS
    # (`@`) does not promise that. Rounding removes the differences between machines.
    exact: Vector = np.einsum("ij,j->i", rows, vector)
    return np.round(exact.astype(np.float64), _DECIMALS)


def cosines_among(rows: Vector, row: int) -> Floats:
    """Return the cosines of the rows with the row of number `row`."""
    return cosines(rows, rows[row])


def select_greedily(
    scores: Floats,
    tokens: NDArray[np.int64],
    free: int,
    cosines_to: Callable[[int], Floats],
    redundancy_penalty: float,
) -> Greedy:
    """Select the result with the highest score, again and again, while one fits `free` tokens.

    The score of a result is its entry of `scores` less `redundancy_penalty` times its redundancy.
    The redundancy is the highest cosine of the result to a selected result, but at least 0. Of
    equal scores, the older result is selected. `tokens` has the cost of each result.
    `cosines_to(i)` returns the cosine of every result to result i. Return the selection, with the
    score of each result when it was last considered.
    """
    redundancy = np.zeros(len(scores))
    current_scores = scores.astype(np.float64)
    last_scores = current_scores.copy()
    is_available = tokens <= free
    selected: list[int] = []
    selected_tokens = 0
    while is_available.any():
        best = int(np.argmax(np.where(is_available, current_scores, -np.inf)))
        last_scores[best] = current_scores[best]
        selected.append(best)
        selected_tokens += int(tokens[best])
        is_available[best] = False
        is_available &= tokens <= free - selected_tokens  # the other results that still fit
        # The scores of the other results fall, if they resemble the selected one. A result that is
        # not available any more keeps its last score.
        if redundancy_penalty and is_available.any():
            np.maximum(redundancy, cosines_to(best), out=redundancy)
            current_scores = scores - redundancy_penalty * redundancy
            np.copyto(last_scores, current_scores, where=is_available)
    return Greedy(selected, selected_tokens, last_scores)


RESULT_CHARACTERS = 8_000
TASK_CHARACTERS = 2_000
"""The first characters of a result and of the first user message, which are embedded."""


@dataclass(slots=True)
class Relevance:
    """A callable that returns every result's relevance, and embeds the results without a vector.

    A call of it sets these fields:

    - `history.vectors` also has the computed vectors of results, as unsaved.
    - `embedded` is true if the embedder returned vectors. Otherwise `warning` has the reason, and
      every relevance is 0.
    - `embedded_tokens` is an estimate of the number of embedded tokens.
    """

    history: History
    embedder: Callable[[], Embedder]
    texts_of: TextsOf
    task_share: float
    warning: str = ""
    embedded: bool = False
    embedded_tokens: int = 0

    def __call__(self, task_share: float | None = None) -> Floats:
        """Return the relevance of every result, shape (n,): its cosine to the query, at least 0.

        The query is the weighted sum of two vectors: of the task, which is the first user message,
        and of the latest user and assistant messages. `task_share` overrides the task's weight. If
        the embedder fails, set `warning` and return 0 for every result.
        """
        share = self.task_share if task_share is None else task_share
        result_count = len(self.history.results.message)
        try:
            task_vector, latest_vector = self._embed_missing(result_count)
        except EmbeddingUnavailable as error:
            self.warning = f"relevance is 0: {error}"
            return np.zeros(result_count)
        query = normalize(share * task_vector + (1 - share) * latest_vector)
        return np.maximum(cosines(self.history.vectors.matrix(result_count), query), 0.0)

    def _embed_missing(self, result_count: int) -> tuple[Vector, Vector]:
        """Embed the latest messages, and the task and results without a vector, in one request.

        The vectors of the task and of the results are added to the history's table. Return the
        vector of the task and the vector of the latest messages.
        """
        history, table, embedder = self.history, self.history.vectors, self.embedder()
        table.use_model(embedder.name)
        # Collect the texts without a vector. Without a user message, the task is an empty text.
        new_results = table.missing_vectors(result_count)
        task_vector = table.task if history.first_user >= 0 else None
        latest = [p for p in (history.last_user, history.last_assistant) if p >= 0]
        task = [history.first_user] if task_vector is None and history.first_user >= 0 else []
        results = [history.results.message[result] for result in new_results]
        read_texts = self.texts_of([*latest, *task, *results])
        latest_text = "\n".join(text for text in read_texts[: len(latest)] if text)
        task_text = read_texts[len(latest)] if task else ""
        result_texts = read_texts[len(latest) + len(task) :]

        # The vectors come back in the order of these texts.
        task_texts = [task_text[:TASK_CHARACTERS]] if task_vector is None else []
        cut_texts = [text[:RESULT_CHARACTERS] for text in result_texts]
        texts = [latest_text, *task_texts, *cut_texts]
        vectors, is_first_request = embed_once(embedder, texts)
        self.embedded = True
        if is_first_request:  # a request that waits for another one's vectors costs no tokens
            self.embedded_tokens += self._tokens(new_results, result_texts, task_text)

        # Store the new vectors in the table.
        latest_vector, result_vectors = vectors[0], vectors[1 + len(task_texts) :]
        if task_vector is None:
            task_vector = vectors[1].copy()  # a view would keep all vectors in memory
        if history.first_user >= 0:
            table.task = task_vector
        table.put(new_results, result_vectors)
        table.unsaved.update(new_results)
        return task_vector, latest_vector

    def _tokens(self, results: Sequence[int], texts: Sequence[str], task: str) -> int:
        """Estimate the embedded tokens: of the latest messages, of the task and of the results.

        `texts` are the full texts of the results. `task` is empty if it was embedded before.
        """
        history = self.history
        latest = {history.last_user, history.last_assistant} - {-1}
        total = sum(history.text_tokens[message] for message in latest)
        if task:
            total += tokens_of_part(history.text_tokens[history.first_user], task, TASK_CHARACTERS)
        for result, text in zip(results, texts, strict=True):
            total += tokens_of_part(history.results.tokens[result], text, RESULT_CHARACTERS)
        return total


def tokens_of_part(tokens: int, text: str, characters: int) -> int:
    """Estimate the tokens of a text's first `characters` characters. `tokens` is its full size."""
    return round(tokens * min(1.0, characters / max(len(text), 1)))


_WORD = re.compile(r"[A-Za-z0-9_.\-]{3,}")


class Match(NamedTuple):
    """A match of a query: the result's number, the share of the query's words in it, the score."""

    result: int
    word_share: float
    score: float


def search_results(
    history: History, query: str, embedder: Embedder, texts_of: TextsOf
) -> list[Match]:
    """Return every result that matches a query, the best first.

    The score is the share of the query's words that are in the result's text, plus the cosine of
    the result to the query. If the embedder fails, words alone count. Of equal scores the newer
    result comes first.
    """
    words = {word.lower() for word in _WORD.findall(query)}
    relevance = Relevance(history, lambda: embedder, texts_of, task_share=0.0)
    relevance()  # only to embed the results without a vector; sets `warning` if that fails
    result_count = len(history.results.message)
    similarity = [0.0] * result_count
    if not relevance.warning:
        vectors, query_vector = history.vectors.matrix(result_count), embedder.embed([query])[0]
        similarity = cosines(vectors, query_vector).tolist()
    # A result matches if it has one of the words, or a positive cosine.
    matches = []
    for result in range(result_count):
        (original,) = texts_of([history.results.message[result]])
        text = original.lower()
        word_share = sum(word in text for word in words) / len(words) if words else 0.0
        if word_share or similarity[result] > 0:
            matches.append(Match(result, word_share, word_share + max(0.0, similarity[result])))
    return sorted(matches, key=lambda match: (-match.score, -match.result))
