"""Arrays of numbers that grow at the end."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_ROOM = 64


class Growing:
    """A one-dimensional array of numbers that is appended to; it doubles when it is full."""

    __slots__ = ("_array", "_length")

    def __init__(self, dtype: DTypeLike = np.int64) -> None:
        self._array: NDArray[Any] = np.zeros(_ROOM, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._array.nbytes

    @property
    def values(self) -> NDArray[Any]:
        """What has been appended, as a view that the next append may leave behind."""
        return self._array[: self._length]

    def first(self, count: int) -> "Growing":
        """The first `count` numbers, as an array of its own that shares them until it grows."""
        found = Growing.__new__(Growing)
        found._array, found._length = self.values[:count], count
        return found

    def append(self, number: float) -> None:
        """Adds one number."""
        if self._length == len(self._array):
            self._reserve(1)
        self._array[self._length] = number
        self._length += 1

    def extend(self, numbers: Any) -> None:
        """Adds a sequence of numbers."""
        count = len(numbers)
        self._reserve(count)
        self._array[self._length : self._length + count] = numbers
        self._length += count

    @staticmethod
    def bytes_in(holder: object) -> int:
        """What all of an object's arrays hold."""
        held = vars(holder).values()
        return sum(each._array.nbytes for each in held if isinstance(each, Growing))

    def _reserve(self, count: int) -> None:
        missing = self._length + count - len(self._array)
        if missing > 0:
            more = np.zeros(max(missing, len(self._array)), self._array.dtype)
            self._array = np.concatenate([self._array, more])
