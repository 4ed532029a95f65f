"""Cost of a warp's request, from the addresses of its lanes.

A warp's load or store is one request. Of global memory it touches sectors of 32 bytes; of shared
memory it takes wavefronts; in each, a bank serves one word. Both are counted here as the
hardware's counters count them, for many warps at once.

References
----------
CUDA C++ Best Practices Guide, sections "Coalesced Access to Global Memory" and "Shared Memory and
Memory Banks"; Nsight Compute documentation, "Metrics Decoder" (requests, sectors, wavefronts).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kerneldsl.planner.work import SECTOR_BYTES

__all__ = [
    "BANK_BYTES",
    "BANK_COUNT",
    "WARP_LANES",
    "count_distinct",
    "count_least_wavefronts",
    "count_sectors",
    "count_wavefronts",
]

WARP_LANES = 32
#: Banks of shared memory, and the bytes that each serves at once.
BANK_COUNT, BANK_BYTES = 32, 4

Integers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


def count_distinct(values: Integers, mask: Mask) -> Integers:
    """Return how many distinct values each row holds among those that a mask names.

    - `values`, `mask`: values that are at least 0, and which of them count.

    Examples
    --------
    >>> count_distinct(np.array([[4, 4, 9], [1, 2, 3]]), np.array([[1, 1, 1], [1, 0, 0]], bool))
    array([2, 1])
    """
    ordered = np.sort(np.where(mask, values, -1), axis=1)
    is_new = np.ones(ordered.shape, bool)
    is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    found: Integers = (is_new & (ordered >= 0)).sum(axis=1)
    return found


def count_sectors(addresses: Integers, mask: Mask, nbytes: int) -> Integers:
    """Return the sectors of 32 bytes that each warp's request touches.

    - `addresses`: first byte of each lane's access, at least 0.
    - `mask`: lanes at work.
    - `nbytes`: bytes of an access.

    Examples
    --------
    >>> lanes, all_lanes = np.arange(32)[None], np.ones((1, 32), bool)
    >>> [int(count_sectors(4 * k * lanes, all_lanes, 4)[0]) for k in (0, 1, 2, 8)]
    [1, 4, 8, 32]
    """
    if SECTOR_BYTES % nbytes == 0 and not np.any((addresses % nbytes)[mask]):
        return count_distinct(addresses // SECTOR_BYTES, mask)  # each lies in one
    reach = (nbytes - 1) // SECTOR_BYTES + 2
    first = addresses // SECTOR_BYTES
    last = (addresses + nbytes - 1) // SECTOR_BYTES
    touched = np.concatenate([np.minimum(first + k, last) for k in range(reach)], axis=1)
    return count_distinct(touched, np.tile(mask, (1, reach)))


def count_wavefronts(addresses: Integers, mask: Mask, nbytes: int) -> Integers:
    """Return the wavefronts that each warp's request of shared memory takes.

    Lanes that touch the same word share it. Accesses of 8 bytes are served half a warp at a
    time, those of 16 bytes a quarter.

    - `addresses`, `mask`, `nbytes`: as of :func:`count_sectors`.

    Examples
    --------
    >>> lanes, all_lanes = np.arange(32)[None], np.ones((1, 32), bool)
    >>> [int(count_wavefronts(4 * k * lanes, all_lanes, 4)[0]) for k in (0, 1, 2, 32, 33)]
    [1, 1, 2, 32, 1]
    >>> int(count_wavefronts(16 * lanes, all_lanes, 16)[0])
    4
    """
    words = max(1, -(-nbytes // BANK_BYTES))
    parts = _parts(nbytes)
    warps = len(addresses)
    first = addresses.reshape(warps * parts, -1) // BANK_BYTES
    at_work = mask.reshape(first.shape)
    touched = np.concatenate([first + k for k in range(words)], axis=1)
    at_work = np.tile(at_work, (1, words))
    ordered = np.sort(np.where(at_work, touched, -1), axis=1)
    is_new = ordered >= 0
    is_new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    rows, columns = np.nonzero(is_new)
    load = np.bincount(
        rows * BANK_COUNT + ordered[rows, columns] % BANK_COUNT, minlength=len(first) * BANK_COUNT
    )
    found: Any = load.reshape(warps, parts, BANK_COUNT).max(axis=2).sum(axis=1)
    return found.astype(np.int64)  # type: ignore[no-any-return]


def count_least_wavefronts(mask: Mask, nbytes: int) -> Integers:
    """Return the wavefronts of requests without conflicts: one for each part of a warp at work."""
    found: Integers = mask.reshape(len(mask), _parts(nbytes), -1).any(axis=2).sum(axis=1)
    return found


def _parts(nbytes: int) -> int:
    """Return the parts of a warp that are served separately."""
    words = max(1, -(-nbytes // BANK_BYTES))
    return min(WARP_LANES, 1 << (words - 1).bit_length())
