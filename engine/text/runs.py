"""Numbers as runs of neighbours: the first of each run and its length."""

from collections.abc import Iterable, Sequence
from itertools import accumulate


def runs(results: Iterable[int]) -> tuple[int, ...]:
    """Numbers as runs: the first of each run of neighbours, and its length."""
    found: list[int] = []
    for result in sorted(results):
        if found and found[-2] + found[-1] == result:
            found[-1] += 1
        else:
            found += [result, 1]
    return tuple(found)


def numbers_in(found: Sequence[int]) -> list[int]:
    """The numbers of runs."""
    pairs = zip(found[::2], found[1::2], strict=True)
    return [number for first, length in pairs for number in range(first, first + length)]


def packed(found: Sequence[int]) -> list[int]:
    """Runs as distances: from the last one's end to the next one's first, and lengths."""
    ends = [0, *(a + b for a, b in zip(found[::2], found[1::2], strict=True))]
    return [
        each
        for first, length, end in zip(found[::2], found[1::2], ends, strict=False)
        for each in (first - end, length)
    ]


def unpacked(distances: Sequence[int]) -> tuple[int, ...]:
    """The runs that `packed` told by distances."""
    edges = list(accumulate(distances))
    return tuple(
        each
        for edge, length in zip(edges[::2], distances[1::2], strict=True)
        for each in (edge, length)
    )
