"""Philox4x32-10: sixteen random bytes as a function of a counter and a key.

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as 1,
2, 3", SC11 (2011), section 4.3; the Random123 library, ``philox.h`` and ``kat_vectors``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func
from kerneldsl.language.intrinsics.values import mulhi

__all__ = ["philox", "philox_4x32_10"]

_FACTORS = (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))


@func
def philox_4x32_10(
    counter0: Any, counter1: Any, counter2: Any, counter3: Any, key0: Any, key1: Any
) -> Any:
    """Scramble a counter under a key by ten rounds of Philox4x32.

    Parameters
    ----------
    counter0, counter1, counter2, counter3 : uint32
        Words of the counter, the lowest first.
    key0, key1 : uint32
        Words of the key, the lower first.

    Returns
    -------
    tuple of four uint32
        Under one key another one for each counter.

    Examples
    --------
    >>> [f"{word:08x}" for word in philox_4x32_10(0, 0, 0, 0, 0, 0)]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    word0, word1 = np.uint32(counter0), np.uint32(counter1)
    word2, word3 = np.uint32(counter2), np.uint32(counter3)
    first, second, low = np.uint64(key0), np.uint64(key1), np.uint64(0xFFFFFFFF)
    for number in range(10):
        product0 = np.uint64(word0) * np.uint64(_FACTORS[0])
        product1 = np.uint64(word2) * np.uint64(_FACTORS[1])
        # A GPU has an instruction for these; elsewhere they are the upper halves of the products.
        upper0, upper1 = mulhi(word0, _FACTORS[0]), mulhi(word2, _FACTORS[1])
        round0 = (first + np.uint64(number) * np.uint64(0x9E3779B9)) & low
        round1 = (second + np.uint64(number) * np.uint64(0xBB67AE85)) & low
        word0 = np.uint32(np.uint64(upper1) ^ np.uint64(word1) ^ round0)
        word2 = np.uint32(np.uint64(upper0) ^ np.uint64(word3) ^ round1)
        word1, word3 = np.uint32(product1 & low), np.uint32(product0 & low)
    return word0, word1, word2, word3


@func
def philox(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return four random words of a seed, at an index of a subsequence.

    The key is the seed, the lower half of the counter the index, its upper half the subsequence.
    cuRAND calls them seed, offset / 4 and subsequence. In Triton's ``randint4x`` the first two are
    seed and offset.

    Parameters
    ----------
    seed, index, subsequence : int
        64 bits of each; negative numbers count as two's complement.

    Returns
    -------
    tuple of four uint32
        Other indices, subsequences and seeds give independent ones.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def words(seed, out):
    ...     i = kd.grid(1)
    ...     a, b, c, d = kd.random.philox(seed, i)
    ...     out[i] = a ^ b ^ c ^ d
    >>> out = np.empty(2, np.uint32)
    >>> words.forall(out.size)(7, out)
    >>> out.tolist()
    [1019122993, 2104894277]
    """
    # An int is an int64 here, as in every argument of a kernel, or a NumPy scalar.
    key = np.uint64(np.int64(seed))
    offset, stream = np.uint64(np.int64(index)), np.uint64(np.int64(subsequence))
    upper, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    return philox_4x32_10(
        np.uint32(offset & low),
        np.uint32(offset >> upper),
        np.uint32(stream & low),
        np.uint32(stream >> upper),
        np.uint32(key & low),
        np.uint32(key >> upper),
    )
