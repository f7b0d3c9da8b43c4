"""An embedder with a memory: looking back asks for the same queries again and again."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.history.vectors import Vectors
from engine.models.embeddings import Embedder


class RememberingEmbedder:
    """An embedder that keeps what it made, so that each text is embedded once."""

    def __init__(self, inner: Embedder) -> None:
        """Nothing is remembered."""
        self._inner = inner
        self._known: dict[str, Any] = {}
        self._bytes = 0

    @property
    def name(self) -> str:
        """The embedder's."""
        return self._inner.name

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._bytes

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text; only new texts are asked for."""
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        if fresh:
            made = self._inner.embed(fresh)
            self._known.update(zip(fresh, made, strict=True))
            self._bytes += made.nbytes + sum(map(len, fresh))
        return np.stack([self._known[text] for text in texts])
