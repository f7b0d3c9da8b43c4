"""Embedding vectors as values: unit length, float32, and their stored form."""

import numpy as np
from numpy.typing import NDArray

type Vectors = NDArray[np.float32]
"""Shape (n, d), one text a row, or (d,) for a single text."""


def unit(vector: Vectors) -> Vectors:
    """`vector` of shape (d,) scaled to length 1; all zero when it has no finite direction."""
    wide = vector.astype(np.float64)
    length = float(np.sqrt(np.sum(wide * wide)))
    if not np.isfinite(length) or length == 0.0:
        return np.zeros_like(vector, dtype=np.float32)
    return (wide / length).astype(np.float32)


def encode_vector(vector: Vectors) -> bytes:
    """`vector` of shape (d,) as little-endian float32."""
    return vector.astype("<f4").tobytes()


def decode_vector(stored: bytes) -> Vectors:
    """The vector `encode_vector` wrote; raises ValueError for anything else."""
    return np.frombuffer(stored, dtype="<f4").astype(np.float32)
