"""Networks that sort and merge what a thread has in registers.

References
----------
K. E. Batcher, "Sorting Networks and Their Applications", AFIPS Spring Joint Computer Conference 32
(1968).
"""

from __future__ import annotations

__all__ = ["MAX_CHUNK_BITS", "merge_pairs", "sort_pairs"]

#: A thread has at most 16 elements in registers.
MAX_CHUNK_BITS = 4


def sort_pairs(count: int) -> list[tuple[int, int]]:
    """Return the places that a network compares to sort a power of two of elements.

    Examples
    --------
    >>> sort_pairs(4)
    [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]
    """
    found = []
    run = 1
    while run < count:
        distance = run
        while distance:
            for start in range(distance % run, count - distance, 2 * distance):
                for low in range(start, min(start + distance, count - distance)):
                    if low // (2 * run) == (low + distance) // (2 * run):
                        found.append((low, low + distance))
            distance //= 2
        run *= 2
    return found


def merge_pairs(count: int, bit: int) -> list[tuple[int, int]]:
    """Return the places that differ in one bit alone.

    Examples
    --------
    >>> merge_pairs(4, 1)
    [(0, 2), (1, 3)]
    """
    return [(low, low | 1 << bit) for low in range(count) if not low >> bit & 1]
