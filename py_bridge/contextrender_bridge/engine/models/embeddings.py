"""The embedders of texts. Relevance and redundancy are cosines of their vectors.

The offline embedder is WordLlama's token vectors, which its wheel contains.
"""

import importlib
import importlib.util
import logging
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from contextrender_bridge.base.settings import set_for_library
from contextrender_bridge.engine.history.growable_arrays import Vectors, normalize
from contextrender_bridge.engine.models.litellm_embedder import LiteLLMEmbedder
from contextrender_bridge.engine.text.tokens import well_formed


class Embedder(Protocol):
    """A function from texts to vectors of one dimension. `name` is stored with the vectors."""

    @property
    def name(self) -> str:
        """The setting that selects this embedder."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit rows, shape (n, d). A text without a vector has a zero row.

        Raise EmbeddingUnavailable if the vectors cannot be computed now.
        """


class NoEmbedder:
    """An embedder without vectors, so that every cosine and every relevance is 0."""

    name: Final = "none"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return rows without numbers, shape (n, 0)."""
        return np.zeros((len(texts), 0), dtype=np.float32)


_embedders: dict[str, Embedder] = {}
_embedders_lock = threading.Lock()


def embed_once(embedder: Embedder, texts: Sequence[str]) -> tuple[Vectors, bool]:
    """Return the vectors of texts, and whether the caller must count the embedded tokens.

    If several requests ask a provider for the same texts at once, they share one answer, and only
    the first of them must count the tokens.
    """
    if isinstance(embedder, LiteLLMEmbedder):
        return embedder.embed_once(texts)
    return embedder.embed(texts), True


def load_embedder(name: str) -> Embedder:
    """Return the shared embedder of a setting.

    The setting is `wordllama`, `none`, or the name of a LiteLLM embedding model.
    """
    with _embedders_lock:
        if name not in _embedders:
            offline_class = OFFLINE.get(name)
            _embedders[name] = offline_class() if offline_class else LiteLLMEmbedder(name)
        return _embedders[name]


class RememberingEmbedder:
    """An embedder that keeps its vectors, so that each text is embedded once."""

    def __init__(self, inner: Embedder) -> None:
        """Start without vectors. `inner` embeds each text that has none yet."""
        self._inner = inner
        self.name = inner.name
        self._vectors: dict[str, Any] = {}
        self.nbytes = 0
        """The memory of the texts and their vectors, in bytes."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text. Only texts without a vector are embedded."""
        new_texts = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new_texts:
            rows = self._inner.embed(new_texts)
            self._vectors.update(zip(new_texts, rows, strict=True))
            self.nbytes += rows.nbytes + sum(map(len, new_texts))
        return np.stack([self._vectors[text] for text in texts])


DIMENSION: Final = 256
_CHUNK_TOKENS: Final = 4096
_BATCH_TEXTS: Final = 64
"""The number of texts that are tokenized at once. More would take hundreds of megabytes."""


class WordLlamaEmbedder:
    """An embedder whose vector of a text is the mean of its token vectors, scaled to unit length.

    It needs no network and no model call, loads its weights at the first `embed`, and is
    thread-safe. Each text is embedded by itself, so its vector does not depend on other texts.
    """

    name: Final = "wordllama"

    def __init__(self) -> None:
        """Set up an embedder whose weights are not loaded yet."""
        self._lock = threading.Lock()
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit rows, shape (n, 256). A text without tokens has a zero row.

        Raise ImportError if wordllama is not installed.
        """
        model = self._loaded()
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            batch = [well_formed(text) for text in texts[start : start + _BATCH_TEXTS]]
            encodings = model.tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            for row, encoding in zip(rows[start:], encodings, strict=False):
                # NumPy reads the numbers of an array faster than those of a list.
                ids = np.asarray(array("q", encoding.ids), dtype=np.int64)
                # The sum has the same direction as the mean.
                row[:] = _sum(model.embedding, ids)
        return normalize(rows)

    def _loaded(self) -> Any:
        """Return the model. Load it if no thread has loaded it yet."""
        with self._lock:
            if self._model is None:
                self._model = _load()
            return self._model


OFFLINE: Final[dict[str, type[Embedder]]] = {
    NoEmbedder.name: NoEmbedder,
    WordLlamaEmbedder.name: WordLlamaEmbedder,
}
"""The embedders that call no provider, by name."""


def _sum(table: Vectors, ids: np.ndarray[Any, np.dtype[np.int64]]) -> Vectors:
    """Return the sum of these rows of the table, read in chunks to save memory."""
    total = np.zeros(table.shape[1], dtype=np.float32)
    for start in range(0, len(ids), _CHUNK_TOKENS):
        total += table[ids[start : start + _CHUNK_TOKENS]].sum(axis=0)
    return total


def _load() -> Any:
    """Load WordLlama's token vectors from its wheel, without a download.

    Raise ImportError if wordllama is not installed.
    """
    # A pool of threads gains nothing for single texts, and makes them wait on a busy machine.
    set_for_library("TOKENIZERS_PARALLELISM", "false")
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ImportError("wordllama is not installed: install it or choose another embedder")
    root, silence = logging.getLogger(), logging.NullHandler()
    root.addHandler(silence)  # without a handler, wordllama's import would set up root logging
    try:
        wordllama = importlib.import_module("wordllama")
    finally:
        root.removeHandler(silence)
    # The wheel has the weights beside its code.
    folder = Path(spec.origin).parent
    model = wordllama.WordLlama.load(cache_dir=folder, dim=DIMENSION, disable_download=True)
    model.tokenizer.no_padding()
    return model
