"""Text embeddings behind one small interface: what relevance and redundancy are measured on."""

import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from engine.history.vectors import Vectors
from engine.models.litellm_embedder import LiteLLMEmbedder
from engine.models.wordllama_embedder import WordLlamaEmbedder


class Embedder(Protocol):
    """Maps texts to vectors of one width. `name` tells whose vectors they are when stored."""

    @property
    def name(self) -> str:
        """The setting that selects this embedder."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, d), unit rows; a zero row for a text that has no vector.

        Raises EmbeddingUnavailable when the vectors cannot be had now.
        """


class NoEmbedder:
    """Embeds nothing: every cosine, and so every relevance, is 0."""

    name: Final = "none"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, 0)."""
        return np.zeros((len(texts), 0), dtype=np.float32)


def embed_once(embedder: Embedder, texts: Sequence[str]) -> tuple[Vectors, bool]:
    """An embedder's vectors, and whether their tokens are this request's: two that ask a provider
    for the same at once get one answer, which is told to one of them."""
    if isinstance(embedder, LiteLLMEmbedder):
        return embedder.embed_once(texts)
    return embedder.embed(texts), True


_embedders: dict[str, Embedder] = {}
_embedders_lock = threading.Lock()


def load_embedder(name: str) -> Embedder:
    """The shared embedder of a setting: `wordllama`, `none`, or a LiteLLM embedding model."""
    with _embedders_lock:
        if name not in _embedders:
            _embedders[name] = _make(name)
        return _embedders[name]


def offline_embedder(name: str) -> Embedder:
    """The embedder of a setting if it asks no provider; else one that embeds nothing."""
    offline = (NoEmbedder.name, WordLlamaEmbedder.name)
    return load_embedder(name if name in offline else NoEmbedder.name)


def _make(name: str) -> Embedder:
    if name == NoEmbedder.name:
        return NoEmbedder()
    if name == WordLlamaEmbedder.name:
        return WordLlamaEmbedder()
    return LiteLLMEmbedder(name)


class RememberingEmbedder:
    """An embedder that keeps what it made, so that each text is embedded once."""

    def __init__(self, inner: Embedder) -> None:
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
