"""Uniform integers of a counter, in an interval.

The interval is ``low`` to ``high`` without ``high``, as in NumPy's ``Generator.integers``. A number
is ``low`` plus the upper part of the product of random bits and the interval's length. It is drawn
without rejection, one for each counter. The numbers of an interval of 2**k numbers are equally
likely. In other intervals probabilities differ by at most one part in 2**32 for 32-bit numbers (64
bits are drawn for them) and in 2**64 for 64-bit ones (128 bits). An empty interval gives ``low``.
Integers of 8 and 16 bits are converted from those of 32.

References
----------
D. Lemire, "Fast random integer generation in an interval", ACM Transactions on Modeling and
Computer Simulation 29 (2019), section 4, without its rejection.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func
from kerneldsl.random.philox import philox

__all__ = ["integers_int32", "integers_int64", "integers_uint32", "integers_uint64"]


@func
def _below_32(words: Any, length: Any) -> Any:
    """Return the upper 64 bits of the product of 64 random bits with at most 2**32, as uint64."""
    upper = np.uint64(32)
    carried = (np.uint64(words[0]) * length) >> upper
    return (np.uint64(words[1]) * length + carried) >> upper


@func
def _below_64(words: Any, length: Any) -> Any:
    """Return the upper 64 bits of the product of 128 random bits with a uint64.

    The words are multiplied with both halves of the length, the lowest word first, and what is
    above each word is carried.
    """
    upper, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    first, second = length & low, length >> upper
    # The sum after each word, without its lowest 32 bits, has 64 bits.
    total = ((np.uint64(words[0]) * first) >> upper) + np.uint64(words[0]) * second
    for position in range(1, 4):
        word = np.uint64(words[position])
        product = word * first
        middle = (total & low) + (product & low)
        total = (total >> upper) + (product >> upper) + (middle >> upper) + word * second
    return total


@func
def integers_int32(seed: Any, index: Any, low: Any, high: Any, subsequence: Any = 0) -> Any:
    """Return an int32 from `low` to `high`, without `high`.

    Parameters
    ----------
    seed, index, subsequence : int
        As of :func:`~kerneldsl.random.philox.philox`.
    low, high : int
        The interval; of an int32 `low` is at least -2**31 and `high` at most 2**31.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def dice(seed, out):
    ...     i = kd.grid(1)
    ...     out[i] = kd.random.integers_int32(seed, i, 1, 7)
    >>> out = np.empty(1000, np.int32)
    >>> dice.forall(out.size)(1, out)
    >>> np.unique(out).tolist()
    [1, 2, 3, 4, 5, 6]
    """
    first = np.int64(low)
    length = np.uint64(np.int64(high) - first)
    return np.int32(first + np.int64(_below_32(philox(seed, index, subsequence), length)))


@func
def integers_uint32(seed: Any, index: Any, low: Any, high: Any, subsequence: Any = 0) -> Any:
    """Return a uint32 from `low` to `high`, without `high`, which is at most 2**32.

    See :func:`integers_int32`.
    """
    first = np.int64(low)
    length = np.uint64(np.int64(high) - first)
    return np.uint32(first + np.int64(_below_32(philox(seed, index, subsequence), length)))


@func
def integers_int64(seed: Any, index: Any, low: Any, high: Any, subsequence: Any = 0) -> Any:
    """Return an int64 from `low` to `high`, without `high`.

    See :func:`integers_int32`.
    """
    first = np.uint64(np.int64(low))
    length = np.uint64(np.int64(high)) - first
    return np.int64(first + _below_64(philox(seed, index, subsequence), length))


@func
def integers_uint64(seed: Any, index: Any, low: Any, high: Any, subsequence: Any = 0) -> Any:
    """Return a uint64 from `low` to `high`, without `high`.

    See :func:`integers_int32`.
    """
    first = np.uint64(low)
    return first + _below_64(philox(seed, index, subsequence), np.uint64(high) - first)
