"""Arrays that grow at the end: of numbers, and of embedding vectors (unit length, float32)."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

_FIRST_SIZE = 64


class GrowableArray:
    """A one-dimensional array of numbers that grows at its end.

    Its memory doubles when it is full. `values` is a view of the numbers. An append may move the
    numbers in memory, so read `values` again after each append.
    """

    __slots__ = ("_array", "values")

    def __init__(self, dtype: DTypeLike = np.int64) -> None:
        """Start an empty array of this type."""
        self._array: NDArray[Any] = np.zeros(_FIRST_SIZE, dtype)
        self.values = self._array[:0]

    def __len__(self) -> int:
        """Return the number of numbers, without the free memory behind them."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._array.nbytes

    def first(self, count: int) -> "GrowableArray":
        """Return an array of the first `count` numbers, without copying them.

        Both arrays share memory, until an append to the returned array copies its numbers.
        """
        head = GrowableArray.__new__(GrowableArray)
        head._array = head.values = self.values[:count]
        return head

    def append(self, number: float) -> None:
        """Append one number."""
        self.extend((number,))

    def extend(self, numbers: Any) -> None:
        """Append a sequence of numbers."""
        start = len(self.values)
        stop = start + len(numbers)
        capacity = len(self._array)
        if stop > capacity:
            more = np.zeros(max(stop - capacity, capacity), self._array.dtype)
            self._array = np.concatenate([self._array, more])
        self._array[start:stop] = numbers
        self.values = self._array[:stop]

    @staticmethod
    def extend_all(*pairs: tuple["GrowableArray", Any]) -> None:
        """Append numbers to several arrays. Each argument is an array and its new numbers."""
        for array, numbers in pairs:
            array.extend(numbers)

    @staticmethod
    def bytes_in(owner: object) -> int:
        """Return the memory of an object's fields that are growable arrays, in bytes."""
        fields = vars(owner).values()
        return sum(field.nbytes for field in fields if isinstance(field, GrowableArray))


type Vectors = NDArray[np.float32]
"""Shape (n, d), one row per text, or (d,) for a single text."""


def normalize(vectors: Vectors) -> Vectors:
    """Return a vector, or each row of several, scaled to length 1.

    A vector without a finite direction becomes all zero.
    """
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.sum(wide * wide, axis=-1, keepdims=True))
    has_direction = np.isfinite(lengths) & (lengths > 0.0)
    return np.where(has_direction, wide / np.where(has_direction, lengths, 1.0), 0.0).astype(
        np.float32
    )


def encode_vector(vector: Vectors) -> bytes:
    """Return `vector` of shape (d,) as little-endian float32."""
    return vector.astype("<f4").tobytes()


def decode_vectors(encoded: Sequence[bytes]) -> Vectors:
    """Return the vectors that `encode_vector` wrote, shape (n, d), of at least one vector.

    Raise ValueError for anything else, and if the vectors have different dimensions.
    """
    if len({len(vector) for vector in encoded}) > 1:
        raise ValueError("the vectors have different dimensions")
    numbers = np.frombuffer(b"".join(encoded), dtype="<f4").astype(np.float32)
    return numbers.reshape(len(encoded), -1)


class VectorTable:
    """The results' unit vectors by result number, in one growing float32 matrix."""

    def __init__(self) -> None:
        """Start without vectors, and without a model."""
        self.model = ""  # the embedding model that all vectors are of
        self.task: Vectors | None = None  # the vector of the first user message
        self.unsaved: set[int] = set()  # the results whose vectors are not stored yet
        self._rows: Vectors = np.zeros((0, 0), np.float32)  # each result's vector, or zeros
        self._present = np.zeros(0, np.bool_)  # whether each result has a vector

    @property
    def nbytes(self) -> int:
        """The memory of the table, in bytes."""
        return self._rows.nbytes + self._present.nbytes

    @property
    def count(self) -> int:
        """The number of results that have a vector."""
        return int(self._present.sum())

    def use_model(self, model: str) -> None:
        """Set the embedding model of the vectors. If the model changes, drop all vectors."""
        if model != self.model:
            self.model = model
            self.task = None
            self.unsaved.clear()
            self._rows = np.zeros((0, 0), np.float32)
            self._present = np.zeros(0, np.bool_)

    def put(self, results: Sequence[int], vectors: Vectors) -> None:
        """Set the unit vectors of results, shape (n, d). `results` has the numbers in order.

        If the vectors in the table have another dimension, drop them first.
        """
        if not len(results):
            return
        dimension = vectors.shape[1]
        if self._rows.shape[1] != dimension:
            self._rows = np.zeros((len(self._rows), dimension), np.float32)
            self._present[:] = False
            self.unsaved.clear()
        if results[-1] >= len(self._rows):  # grow both arrays by half
            size = max(results[-1] + 1, len(self._rows) * 3 // 2, 16)
            rows = np.zeros((size, dimension), np.float32)
            rows[: len(self._rows)] = self._rows
            self._rows = rows
            self._present = np.concatenate(
                [self._present, np.zeros(size - len(self._present), np.bool_)]
            )
        self._rows[results] = vectors
        self._present[results] = True

    def encoded_unsaved(self) -> dict[int, bytes]:
        """Return the encoded vectors that are not in the store yet, by result number."""
        return {result: encode_vector(self._rows[result]) for result in sorted(self.unsaved)}

    def first(self, count: int) -> Self:
        """Return a copy of the first `count` rows."""
        copied = type(self)()
        copied.model, copied.task = self.model, self.task
        copied.unsaved = {result for result in self.unsaved if result < count}
        copied._rows = self._rows[:count].copy()
        copied._present = self._present[:count].copy()
        return copied

    def missing_vectors(self, count: int) -> list[int]:
        """Return which of the first `count` results have no vector yet."""
        present = self._present[:count]
        absent: list[int] = np.flatnonzero(~present).tolist()
        # The table may have fewer rows than there are results.
        return [*absent, *range(len(present), count)]

    def matrix(self, count: int) -> Vectors:
        """Return the vectors of the first `count` results, shape (count, d).

        A result without a vector has a row of zeros.
        """
        rows = self._rows[:count]
        if len(rows) == count:
            return rows
        padded = np.zeros((count, self._rows.shape[1]), np.float32)
        padded[: len(rows)] = rows
        return padded
