"""Text embeddings behind one small interface: what relevance and redundancy are measured on.

The offline embedder is WordLlama's token vectors, shipped inside its wheel.
"""

import importlib
import importlib.util
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from contextrender_bridge.base.settings import set_for_library
from contextrender_bridge.engine.history.growable_arrays import Vectors, unit
from contextrender_bridge.engine.models.litellm_embedder import LiteLLMEmbedder
from contextrender_bridge.engine.text.tokens import well_formed


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


_embedders: dict[str, Embedder] = {}
_embedders_lock = threading.Lock()


def embed_once(embedder: Embedder, texts: Sequence[str]) -> tuple[Vectors, bool]:
    """An embedder's vectors, and whether their tokens are this request's: two that ask a provider
    for the same at once get one answer, which is told to one of them."""
    if isinstance(embedder, LiteLLMEmbedder):
        return embedder.embed_once(texts)
    return embedder.embed(texts), True


def load_embedder(name: str) -> Embedder:
    """The shared embedder of a setting: `wordllama`, `none`, or a LiteLLM embedding model."""
    with _embedders_lock:
        if name not in _embedders:
            made = OFFLINE.get(name)
            _embedders[name] = made() if made else LiteLLMEmbedder(name)
        return _embedders[name]


def offline_embedder(name: str) -> Embedder:
    """The embedder of a setting if it asks no provider; else one that embeds nothing."""
    return load_embedder(name if name in OFFLINE else NoEmbedder.name)


class RememberingEmbedder:
    """An embedder that keeps what it made, so that each text is embedded once."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.name = inner.name
        self._known: dict[str, Any] = {}
        self.nbytes = 0
        """The memory held, in bytes."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text; only new texts are asked for."""
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        if fresh:
            made = self._inner.embed(fresh)
            self._known.update(zip(fresh, made, strict=True))
            self.nbytes += made.nbytes + sum(map(len, fresh))
        return np.stack([self._known[text] for text in texts])


DIMENSION: Final = 256
_CHUNK_TOKENS: Final = 4096
_BATCH_TEXTS: Final = 64
"""Texts tokenized at once: the tokens of a few thousand would take hundreds of megabytes."""


class WordLlamaEmbedder:
    """Mean of a text's token vectors, scaled to unit length; needs no network and no model call.

    Loads on first use and is safe to share between threads. Each text is pooled by itself, so its
    vector has the same bits alone and in any batch.
    """

    name: Final = "wordllama"

    def __init__(self) -> None:
        """Does nothing yet: the weights load at the first `embed`."""
        self._lock = threading.Lock()
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit rows, shape (n, 256); a zero row for a text without tokens.

        Raises ImportError when wordllama is not installed.
        """
        model = self._loaded()
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            some = [well_formed(text) for text in texts[start : start + _BATCH_TEXTS]]
            encodings = model.tokenizer.encode_batch_fast(some, add_special_tokens=False)
            for row, encoding in zip(rows[start:], encodings, strict=False):
                row[:] = unit(_sum(model.embedding, np.asarray(encoding.ids, dtype=np.int64)))
        return rows

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = _load()
            return self._model


OFFLINE: Final[dict[str, type[Embedder]]] = {
    NoEmbedder.name: NoEmbedder,
    WordLlamaEmbedder.name: WordLlamaEmbedder,
}
"""Those that ask no provider."""


def _sum(table: Vectors, ids: np.ndarray[Any, np.dtype[np.int64]]) -> Vectors:
    total = np.zeros(table.shape[1], dtype=np.float32)
    for start in range(0, len(ids), _CHUNK_TOKENS):
        total += table[ids[start : start + _CHUNK_TOKENS]].sum(axis=0)
    return total


def _load() -> Any:
    # Handing single texts to a pool of threads gains nothing, and waits when the machine is busy.
    set_for_library("TOKENIZERS_PARALLELISM", "false")
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ImportError("wordllama is not installed: install it or choose another embedder")
    root, silence = logging.getLogger(), logging.NullHandler()
    root.addHandler(silence)  # wordllama's import sets up root logging where there is none
    try:
        wordllama = importlib.import_module("wordllama")
    finally:
        root.removeHandler(silence)
    folder = Path(spec.origin).parent
    model = wordllama.WordLlama.load(cache_dir=folder, dim=DIMENSION, disable_download=True)
    model.tokenizer.no_padding()
    return model
